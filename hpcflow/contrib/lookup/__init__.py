"""Lookup tables: constant ones with their initializers, and ones that change."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.lookup.constant import (
    HashTable,
    KeyValueTensorInitializer,
    StaticHashTable,
    StaticHashTableV1,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileInitializer,
    TextFileStringTableInitializer,
)
from hpcflow.contrib.lookup.hashing import (
    FastHashSpec,
    HasherSpec,
    IdTableWithHashBuckets,
    StaticVocabularyTable,
    StaticVocabularyTableV1,
    StrongHashSpec,
)
from hpcflow.contrib.lookup.interface import LookupInterface
from hpcflow.contrib.lookup.mutable import MutableDenseHashTable, MutableHashTable
from hpcflow.contrib.lookup.vocabulary import (
    index_table_from_file,
    index_table_from_tensor,
    index_to_string,
    index_to_string_table_from_file,
    index_to_string_table_from_tensor,
    string_to_index,
)

__all__ = [
    "FastHashSpec",
    "HashTable",
    "HasherSpec",
    "IdTableWithHashBuckets",
    "KeyValueTensorInitializer",
    "LookupInterface",
    "MutableDenseHashTable",
    "MutableHashTable",
    "StrongHashSpec",
    "TextFileIdTableInitializer",
    "TextFileIndex",
    "TextFileInitializer",
    "TextFileStringTableInitializer",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
    "string_to_index",
]

__getattr__ = named_otherwise(__name__)
