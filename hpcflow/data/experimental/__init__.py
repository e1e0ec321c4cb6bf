"""``hpcflow.data.experimental``: more ways to change data sets, most of them for ``apply``."""

from __future__ import annotations

from hpcflow.base.late_names import named_otherwise
from hpcflow.data.dataset import AUTOTUNE
from hpcflow.data.experimental.batching import (
    batch_and_drop_remainder,
    dense_to_sparse_batch,
    map_and_batch,
    padded_batch_and_drop_remainder,
    unbatch,
)
from hpcflow.data.experimental.database import SqlDataset
from hpcflow.data.experimental.files import (
    CsvDataset,
    make_batched_features_dataset,
    make_csv_dataset,
    make_tf_record_dataset,
    parse_example_dataset,
)
from hpcflow.data.experimental.grouping import (
    Reducer,
    bucket_by_sequence_length,
    group_by_reducer,
    group_by_window,
)
from hpcflow.data.experimental.optional import Optional, get_next_as_optional, get_structure
from hpcflow.data.experimental.optional import OptionalSpec as OptionalStructure
from hpcflow.data.experimental.order import (
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    Counter,
    RandomDataset,
    cardinality,
    copy_to_device,
    enumerate_dataset,
    get_single_element,
    ignore_errors,
    parallel_interleave,
    prefetch_to_device,
    scan,
    shuffle_and_repeat,
    take_while,
    unique,
)
from hpcflow.data.experimental.resampling import rejection_resample
from hpcflow.data.experimental.sampling import choose_from_datasets, sample_from_datasets
from hpcflow.data.options import (
    DistributeOptions,
    MapVectorizationOptions,
    OptimizationOptions,
    StatsOptions,
    ThreadingOptions,
)
from hpcflow.data.readers import MatchingFilesDataset, TFRecordWriter
from hpcflow.data.specs import SparseTensorStructure, TensorStructure
from hpcflow.data.structure import DatasetSpec as DatasetStructure
from hpcflow.graph.type_spec import TypeSpec as Structure

__all__ = [
    "AUTOTUNE",
    "Counter",
    "CsvDataset",
    "DatasetStructure",
    "DistributeOptions",
    "INFINITE_CARDINALITY",
    "MapVectorizationOptions",
    "MatchingFilesDataset",
    "OptimizationOptions",
    "Optional",
    "OptionalStructure",
    "RandomDataset",
    "Reducer",
    "SparseTensorStructure",
    "SqlDataset",
    "StatsOptions",
    "Structure",
    "TFRecordWriter",
    "TensorStructure",
    "ThreadingOptions",
    "UNKNOWN_CARDINALITY",
    "batch_and_drop_remainder",
    "bucket_by_sequence_length",
    "cardinality",
    "choose_from_datasets",
    "copy_to_device",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "get_next_as_optional",
    "get_single_element",
    "get_structure",
    "group_by_reducer",
    "group_by_window",
    "ignore_errors",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "make_tf_record_dataset",
    "map_and_batch",
    "padded_batch_and_drop_remainder",
    "parallel_interleave",
    "parse_example_dataset",
    "prefetch_to_device",
    "rejection_resample",
    "sample_from_datasets",
    "scan",
    "shuffle_and_repeat",
    "take_while",
    "unbatch",
    "unique",
]

__getattr__ = named_otherwise(__name__)
