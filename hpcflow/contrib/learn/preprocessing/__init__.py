"""``hpcflow.contrib.learn.preprocessing``: words and categories as numbers."""

from hpcflow.contrib.learn.preprocessing.text import (
    ByteProcessor,
    VocabularyProcessor,
    tokenizer,
)
from hpcflow.contrib.learn.preprocessing.vocabulary import CategoricalVocabulary

__all__ = ["ByteProcessor", "CategoricalVocabulary", "VocabularyProcessor", "tokenizer"]
