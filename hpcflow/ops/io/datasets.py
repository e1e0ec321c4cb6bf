"""Data sets: op types whose variant tensors stand for sequences of elements.

An element is a tuple of tensors of the types and shapes that every data set declares. Sources make
elements, the other types change those of their input; nothing is computed before an iterator asks.
"""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, arg_length
from hpcflow.graph.shape_inference import scalar, with_rank

__all__: list[str] = []

COMPONENTS = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1"
_CAPTURED = "Targuments: list(type) >= 0"
_INPUT = "input_dataset: variant"
_CALL = f"{_INPUT}; other_arguments: Targuments"
_PARALLEL = "use_inter_op_parallelism: bool = true; preserve_cardinality: bool = false"


def _dataset_shape(op: Operation) -> list[Dims]:
    """A data set is a scalar, and so are the numbers that it is made of."""
    position = 0
    for arg in op.op_def.inputs:
        if not (arg.type_list_attr or arg.number_attr) and arg.name not in _FREE:
            _check_rank(op, position, arg.name)
        position += arg_length(arg, op._attrs)
    return scalar(op)


def _check_rank(op: Operation, position: int, name: str) -> None:
    dims = op.input_dims(position)
    if dims is None:
        return
    if name in ("filenames", "patterns"):
        if len(dims) > 1:
            raise ValueError(f"Shape must be at most rank 1 but is rank {len(dims)}: {name}")
        return
    with_rank(dims, 0, name)


# Inputs of any shape.
_FREE = frozenset(("indices", "values", "dense_shape", "optimizations", "optimizations_enabled",
                   "optimizations_disabled", "optimizations_default", "select_cols",
                   "byte_offsets", "row_shape"))

# Op type -> (inputs, attributes besides the types and shapes of the elements).
_REDUCER = ("key", "init", "reduce", "finalize")
_TYPES = {
    "RangeDataset": ("start: int64; stop: int64; step: int64", ""),
    "RandomDataset": ("seed: int64; seed2: int64", ""),
    "ZipDataset": ("input_datasets: N * variant", "N: int >= 1"),
    "ConcatenateDataset": (f"{_INPUT}; another_dataset: variant", ""),
    "RepeatDataset": (f"{_INPUT}; count: int64", ""),
    "TakeDataset": (f"{_INPUT}; count: int64", ""),
    "SkipDataset": (f"{_INPUT}; count: int64", ""),
    "ShardDataset": (f"{_INPUT}; num_shards: int64; index: int64",
                     "require_non_empty: bool = false"),
    "ShuffleDataset": (f"{_INPUT}; buffer_size: int64; seed: int64; seed2: int64",
                       "reshuffle_each_iteration: bool = true"),
    "ShuffleAndRepeatDataset": (
        f"{_INPUT}; buffer_size: int64; seed: int64; seed2: int64; count: int64",
        "reshuffle_each_iteration: bool = true"),
    "ShuffleDatasetV3": (
        f"{_INPUT}; buffer_size: int64; seed: int64; seed2: int64; seed_generator: resource",
        "reshuffle_each_iteration: bool = true"),
    "ShuffleAndRepeatDatasetV2": (
        (f"{_INPUT}; buffer_size: int64; seed: int64; seed2: int64; count: int64; "
        "seed_generator: resource"), "reshuffle_each_iteration: bool = true"),
    "CacheDataset": (f"{_INPUT}; filename: string", ""),
    "CacheDatasetV2": (f"{_INPUT}; filename: string; cache: resource", ""),
    "AssertCardinalityDataset": (f"{_INPUT}; cardinality: int64", ""),
    "PrefetchDataset": (f"{_INPUT}; buffer_size: int64",
                        "slack_period: int = 0; legacy_autotune: bool = true"),
    "BatchDataset": (f"{_INPUT}; batch_size: int64", ""),
    "BatchDatasetV2": (f"{_INPUT}; batch_size: int64; drop_remainder: bool",
                       "parallel_copy: bool = false"),
    "ParallelBatchDataset": (
        f"{_INPUT}; batch_size: int64; num_parallel_calls: int64; drop_remainder: bool",
        "parallel_copy: bool = false; deterministic: string = 'default'"),
    "SlidingWindowDataset": (
        f"{_INPUT}; window_size: int64; window_shift: int64; window_stride: int64", ""),
    "DenseToSparseBatchDataset": (f"{_INPUT}; batch_size: int64; row_shape: int64", ""),
    "WindowDataset": (f"{_INPUT}; size: int64; shift: int64; stride: int64; drop_remainder: bool",
                      ""),
    "MapDataset": (_CALL, f"f: func; {_CAPTURED}; {_PARALLEL}"),
    "ParallelMapDataset": (f"{_CALL}; num_parallel_calls: int32",
                           (f"f: func; {_CAPTURED}; use_inter_op_parallelism: bool = true; "
                           "sloppy: bool = false; preserve_cardinality: bool = false")),
    "ParallelMapDatasetV2": (
        f"{_CALL}; num_parallel_calls: int64",
        (f"f: func; {_CAPTURED}; use_inter_op_parallelism: bool = true; "
         "deterministic: string = 'default'; preserve_cardinality: bool = false")),
    "TakeWhileDataset": (_CALL, f"predicate: func; {_CAPTURED}"),
    "UniqueDataset": (_INPUT, ""),
    "DirectedInterleaveDataset": (
        "selector_input_dataset: variant; data_input_datasets: N * variant", "N: int >= 1"),
    "FilterDataset": (_CALL, f"predicate: func; {_CAPTURED}"),
    "ParallelFilterDataset": (
        f"{_CALL}; num_parallel_calls: int64",
        f"predicate: func; deterministic: string = 'default'; {_CAPTURED}"),
    "FlatMapDataset": (_CALL, f"f: func; {_CAPTURED}"),
    "InterleaveDataset": (f"{_CALL}; cycle_length: int64; block_length: int64",
                          f"f: func; {_CAPTURED}"),
    "ParallelInterleaveDatasetV2": (
        f"{_CALL}; cycle_length: int64; block_length: int64; num_parallel_calls: int64",
        f"f: func; {_CAPTURED}; sloppy: bool = false"),
    "ParallelInterleaveDatasetV3": (
        f"{_CALL}; cycle_length: int64; block_length: int64; num_parallel_calls: int64",
        f"f: func; deterministic: string = 'default'; {_CAPTURED}"),
    "ParallelInterleaveDatasetV4": (
        (f"{_CALL}; cycle_length: int64; block_length: int64; buffer_output_elements: int64; "
        "prefetch_input_elements: int64; num_parallel_calls: int64"),
        f"f: func; deterministic: string = 'default'; {_CAPTURED}"),
    "LegacyParallelInterleaveDatasetV2": (
        (f"{_CALL}; cycle_length: int64; block_length: int64; buffer_output_elements: int64; "
        "prefetch_input_elements: int64"),
        f"f: func; deterministic: string = 'default'; {_CAPTURED}"),
    "ParallelInterleaveDataset": (
        (f"{_CALL}; cycle_length: int64; block_length: int64; sloppy: bool; "
        "buffer_output_elements: int64; prefetch_input_elements: int64"), f"f: func; {_CAPTURED}"),
    "MapAndBatchDataset": (
        f"{_CALL}; batch_size: int64; num_parallel_calls: int64; drop_remainder: bool",
        f"f: func; {_CAPTURED}; preserve_cardinality: bool = false"),
    "ScanDataset": (f"{_INPUT}; initial_state: Tstate; other_arguments: Targuments",
                    (f"f: func; Tstate: list(type) >= 1; {_CAPTURED}; "
                    "preserve_cardinality: bool = false")),
    "GroupByWindowDataset": (
        (f"{_INPUT}; key_func_other_arguments: Tkey_func_other_arguments; "
        "reduce_func_other_arguments: Treduce_func_other_arguments; "
        "window_size_func_other_arguments: Twindow_size_func_other_arguments"),
        ("key_func: func; reduce_func: func; window_size_func: func; "
        "Tkey_func_other_arguments: list(type) >= 0; "
        "Treduce_func_other_arguments: list(type) >= 0; "
        "Twindow_size_func_other_arguments: list(type) >= 0")),
    "GroupByReducerDataset": (
        "; ".join((_INPUT, *(f"{f}_func_other_arguments: T{f}_func_other_arguments"
                             for f in _REDUCER))),
        "; ".join((*(f"{f}_func: func" for f in _REDUCER),
                   *(f"T{f}_func_other_arguments: list(type) >= 0" for f in _REDUCER)))),
    **{f"ParseExampleDataset{version}": (
        f"{_INPUT}; num_parallel_calls: int64; dense_defaults: Tdense",
        ("sparse_keys: list(string) >= 0; dense_keys: list(string) >= 0; "
         "sparse_types: list({float, int64, string}) >= 0; "
         "Tdense: list({float, int64, string}) >= 0; dense_shapes: list(shape) >= 0; "
         "ragged_keys: list(string) >= 0 = []; "
         "ragged_value_types: list({float, int64, string}) >= 0 = []; "
         f"ragged_split_types: list({{int32, int64}}) >= 0 = []; {how}"))
       for version, how in (("", "sloppy: bool = false"),
                            ("V2", "deterministic: string = 'default'"))},
    "AssertNextDataset": (f"{_INPUT}; transformations: string", ""),
    "BytesProducedStatsDataset": (f"{_INPUT}; tag: string", ""),
    "LatencyStatsDataset": (f"{_INPUT}; tag: string", ""),
    "MaxIntraOpParallelismDataset": (f"{_INPUT}; max_intra_op_parallelism: int64", ""),
    "NonSerializableDataset": (_INPUT, ""),
    "PrivateThreadPoolDataset": (f"{_INPUT}; num_threads: int64", ""),
    "IgnoreErrorsDataset": (_INPUT, ""),
    "UnbatchDataset": (_INPUT, ""),
    "OptimizeDataset": (f"{_INPUT}; optimizations: string",
                        "optimization_configs: list(string) = []"),
    "OptimizeDatasetV2": (
        (f"{_INPUT}; optimizations_enabled: string; optimizations_disabled: string; "
        "optimizations_default: string"), "optimization_configs: list(string) = []"),
    "OptionsDataset": (_INPUT, "serialized_options: string"),
    "FinalizeDataset": (_INPUT, "has_captured_ref: bool = false"),
    "ModelDataset": (_INPUT, "algorithm: int = 0; cpu_budget: int = 0"),
    "GeneratorDataset": (
        ("init_func_other_args: Tinit_func_args; next_func_other_args: Tnext_func_args; "
        "finalize_func_other_args: Tfinalize_func_args"),
        ("init_func: func; next_func: func; finalize_func: func; "
        "Tinit_func_args: list(type) >= 0; Tnext_func_args: list(type) >= 0; "
        "Tfinalize_func_args: list(type) >= 0")),
}  # fmt: skip

# Those that name the types of their elements otherwise, or imply them.
_OTHERS = {
    "TensorDataset": ("components: Toutput_types",
                      "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1"),
    "TensorSliceDataset": ("components: Toutput_types",
                           "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1"),
    "SparseTensorSliceDataset": ("indices: int64; values: Tvalues; dense_shape: int64",
                                 "Tvalues: type"),
    "PaddedBatchDataset": (
        f"{_INPUT}; batch_size: int64; padded_shapes: N * int64; padding_values: Toutput_types",
        "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1"),
    "PaddedBatchDatasetV2": (
        (f"{_INPUT}; batch_size: int64; padded_shapes: N * int64; padding_values: Toutput_types; "
        "drop_remainder: bool"),
        ("parallel_copy: bool = false; Toutput_types: list(type) >= 1; "
        "output_shapes: list(shape) >= 1; N: int >= 1")),
    "TextLineDataset": ("filenames: string; compression_type: string; buffer_size: int64", ""),
    "TFRecordDataset": ("filenames: string; compression_type: string; buffer_size: int64", ""),
    "TFRecordDatasetV2": (
        "filenames: string; compression_type: string; buffer_size: int64; byte_offsets: int64", ""),
    "MatchingFilesDataset": ("patterns: string", ""),
    "FixedLengthRecordDataset": (
        ("filenames: string; header_bytes: int64; record_bytes: int64; footer_bytes: int64; "
        "buffer_size: int64"), ""),
    "CSVDataset": (
        ("filenames: string; compression_type: string; buffer_size: int64; header: bool; "
        "field_delim: string; use_quote_delim: bool; na_value: string; select_cols: int64; "
        "record_defaults: output_types"),
        ("output_types: list({float, double, int32, int64, string}) >= 1; "
        "output_shapes: list(shape) >= 1")),
    "FixedLengthRecordDatasetV2": (
        ("filenames: string; header_bytes: int64; record_bytes: int64; footer_bytes: int64; "
        "buffer_size: int64; compression_type: string"), ""),
}

# What is made anew in every step: constants go in, but a data set is no constant.
_SOURCES = frozenset((
    "RangeDataset", "RandomDataset", "TensorDataset", "TensorSliceDataset",
    "SparseTensorSliceDataset", "TextLineDataset", "TFRecordDataset", "TFRecordDatasetV2",
    "FixedLengthRecordDataset", "FixedLengthRecordDatasetV2", "GeneratorDataset", "CSVDataset",
    "MatchingFilesDataset"))

# Names under which writers of other versions have the same types.
_PREFIXES = {"Experimental": (
    "IgnoreErrorsDataset", "UnbatchDataset", "GroupByWindowDataset", "MapDataset", "ScanDataset",
    "RandomDataset", "ParallelInterleaveDataset", "MapAndBatchDataset", "TakeWhileDataset",
    "UniqueDataset", "SlidingWindowDataset", "DirectedInterleaveDataset",
    "GroupByReducerDataset", "ParseExampleDataset", "DenseToSparseBatchDataset",
    "AssertNextDataset",
    "BytesProducedStatsDataset", "LatencyStatsDataset", "MaxIntraOpParallelismDataset",
    "NonSerializableDataset", "PrivateThreadPoolDataset")}


def _register(op_type: str, inputs: str, attrs: str, stateful: bool) -> None:
    register_op(op_type, inputs, "handle: variant", attrs, shape=_dataset_shape,
                stateful=stateful)
    not_differentiable(op_type)


for _op_type, (_inputs, _attrs) in _TYPES.items():
    _full = f"{_attrs}; {COMPONENTS}" if _attrs else COMPONENTS
    _register(_op_type, _inputs, _full, _op_type in _SOURCES)
    for _prefix, _types in _PREFIXES.items():
        if _op_type in _types:
            _register(_prefix + _op_type, _inputs, _full, _op_type in _SOURCES)
_register("MapAndBatchDatasetV2", *_TYPES["MapAndBatchDataset"][:1],
          f"{_TYPES['MapAndBatchDataset'][1]}; {COMPONENTS}", False)
for _op_type, (_inputs, _attrs) in _OTHERS.items():
    _register(_op_type, _inputs, _attrs, _op_type in _SOURCES)
for _op_type in ("CSVDataset", "MatchingFilesDataset"):
    _register(f"Experimental{_op_type}", *_OTHERS[_op_type], True)

# Stand in for state that graphs of later versions share between data sets of eager execution.
for _op_type in ("DummySeedGenerator", "DummyMemoryCache"):
    register_op(_op_type, outputs="handle: resource", stateful=True, shape=scalar)
    not_differentiable(_op_type)
