"""Names that programs for 0.x, or for 1.x after 1.0, use for what hpcflow has under another name.

Nothing is imported before a name is asked for: the modules in question look here for names that
they do not have themselves.
"""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType
from typing import Any

from hpcflow.api import absent_names
from hpcflow.base import late_names

_RAW = "raw"  # stands for the builder of an op type: "raw:Roll"
_RNN = "hpcflow.contrib.rnn"

# Module -> name -> module:object that it stands for (a module without an object).
NAMES: dict[str, dict[str, str]] = {
    "hpcflow": {
        "regex_replace": "hpcflow.ops.strings.string_rewriting:regex_replace",
        **{name: f"hpcflow:{now}" for name, now in {
            "all_variables": "global_variables", "batch_cholesky": "cholesky",
            "batch_matrix_band_part": "matrix_band_part",
            "batch_matrix_determinant": "matrix_determinant", "batch_matrix_diag": "matrix_diag",
            "batch_matrix_diag_part": "matrix_diag_part", "batch_matrix_inverse": "matrix_inverse",
            "batch_matrix_set_diag": "matrix_set_diag", "batch_matrix_solve": "matrix_solve",
            "batch_matrix_transpose": "matrix_transpose",
            "batch_matrix_triangular_solve": "matrix_triangular_solve", "complex_abs": "abs",
            "inv": "reciprocal", "listdiff": "setdiff1d", "mul": "multiply", "neg": "negative",
            "pack": "stack", "select": "where", "sub": "subtract", "unpack": "unstack",
        }.items()},
        **{name: f"raw:{op_type}" for name, op_type in {
            "acosh": "Acosh", "asinh": "Asinh", "atan2": "Atan2", "atanh": "Atanh",
            "batch_matmul": "BatchMatMul", "broadcast_to": "BroadcastTo", "cosh": "Cosh",
            "decode_compressed": "DecodeCompressed", "div_no_nan": "DivNoNan",
            "guarantee_const": "GuaranteeConst", "identity_n": "IdentityN",
            "roll": "Roll",
            "scatter_max": "ScatterMax", "scatter_min": "ScatterMin", "sinh": "Sinh",
            "tensor_scatter_add": "TensorScatterAdd", "tensor_scatter_sub": "TensorScatterSub",
            "tensor_scatter_update": "TensorScatterUpdate", "unravel_index": "UnravelIndex",
            "timestamp": "Timestamp", "string_strip": "StringStrip",
            "serialize_tensor": "SerializeTensor",
            "tensor_scatter_nd_add": "TensorScatterAdd",
            "tensor_scatter_nd_max": "TensorScatterMax",
            "tensor_scatter_nd_min": "TensorScatterMin",
            "tensor_scatter_nd_sub": "TensorScatterSub",
            "tensor_scatter_nd_update": "TensorScatterUpdate",
        }.items()},
        **{name: f"hpcflow.{path}" for name, path in {
            "add_to_collections": "graph.legacy:add_to_collections",
            "variable_creator_scope": "ops.state.creators:variable_creator_scope",
            "Module": "layers.module:Module",
            "TensorSpec": "graph.tensor_spec:TensorSpec",
            "TypeSpec": "graph.type_spec:TypeSpec",
            "IndexedSlicesSpec": "graph.composite_specs:IndexedSlicesSpec",
            "SparseTensorSpec": "graph.composite_specs:SparseTensorSpec",
            "enable_eager_execution": "platform.eager_context:enable_eager_execution",
            "get_logger": "platform.logging:get_logger",
            "load_file_system_library": "platform.libraries:load_file_system_library",
            "load_library": "platform.libraries:load_library",
            "load_op_library": "platform.libraries:load_op_library",
            "dimension_at_index": "shapes:dimension_at_index",
            "ensure_shape": "ops.arrays.shape_ops:ensure_shape",
            "dimension_value": "shapes:dimension_value",
            "get_static_value": "graph.legacy:constant_value",
            "is_tensor": "graph.legacy:is_tensor",
            "make_ndarray": "graph.tensor_proto:make_ndarray",
            "make_tensor_proto": "graph.tensor_proto:make_tensor_proto",
            "init_scope": "graph.graph:init_scope",
            "numpy_function": "ops.flow.py_func:py_func",
            "repeat": "ops.arrays.repeating:repeat",
            "to_complex128": "ops.arrays.casting:to_complex128",
            "to_complex64": "ops.arrays.casting:to_complex64",
            "uint32": "dtypes:uint32", "uint64": "dtypes:uint64",
            "no_gradient": "graph.opdef:NotDifferentiable",
        }.items()},
        "matrix_square_root": "raw:MatrixSquareRoot",
        "merge_all_summaries": "hpcflow.summary:merge_all",
        "merge_summary": "hpcflow.summary:merge",
        "quantize": "hpcflow:quantize_v2",
        "lookup": "hpcflow.contrib.lookup",
        "pywrap_tensorflow": "hpcflow.python.pywrap_tensorflow",
        "tables": "hpcflow.contrib.lookup",
    },
    "hpcflow.bitwise": {
        "bitwise_and": "raw:BitwiseAnd", "bitwise_or": "raw:BitwiseOr",
        "bitwise_xor": "raw:BitwiseXor", "invert": "raw:Invert", "left_shift": "raw:LeftShift",
        "right_shift": "raw:RightShift",
    },
    "hpcflow.config": {
        **{name: f"hpcflow.platform.devices.{module}" for name, module in {
            "experimental": "physical", "optimizer": "optimizer", "threading": "threading",
        }.items()},
        **{name: f"hpcflow.platform.devices.placement:{name}" for name in (
            "get_soft_device_placement", "set_soft_device_placement")},
        "experimental_list_devices": "hpcflow.platform.devices.placement:list_device_names",
        **{name: f"hpcflow.platform.devices.physical:{name}" for name in (
            "get_visible_devices", "list_logical_devices", "list_physical_devices",
            "set_visible_devices")},
    },
    "hpcflow.debugging": {"assert_all_finite": "hpcflow:verify_tensor_all_finite",
                          "assert_shapes": "hpcflow.ops.flow.shape_checks:assert_shapes"},
    "hpcflow.dtypes": {name: f"hpcflow:{name}" for name in (
        "as_string", "cast", "complex", "saturate_cast")},
    "hpcflow.io": {
        **{name: f"hpcflow.image:{name}" for name in (
            "decode_and_crop_jpeg", "decode_bmp", "decode_gif", "decode_image", "decode_jpeg",
            "decode_png", "encode_jpeg", "encode_png", "extract_jpeg_shape", "is_jpeg")},
        **{name: f"hpcflow.platform.python_io:{name}" for name in (
            "TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter",
            "tf_record_iterator")},
        "decode_compressed": "raw:DecodeCompressed",
        "match_filenames_once": "hpcflow.train:match_filenames_once",
        "write_graph": "hpcflow.train:write_graph",
    },
    "hpcflow.quantization": {"quantize": "hpcflow:quantize_v2"},
    "hpcflow.ops.sparse.sets": {name: f"hpcflow.ops.sparse.sets:set_{name}" for name in (
        "difference", "intersection", "size", "union")},
    "hpcflow.graph_util": {"import_graph_def": "hpcflow:import_graph_def"},
    "hpcflow.initializers": {
        "identity": "hpcflow.ops.state.initializers:Identity",
        **{name: f"hpcflow.ops.state.initializers:{name}" for name in (
            "he_normal", "he_uniform", "lecun_normal", "lecun_uniform")},
    },
    "hpcflow.contrib.framework": {
        "argsort": "hpcflow:argsort", "sort": "hpcflow:sort", "smart_case": "hpcflow:case",
        "TensorSpec": "hpcflow.graph.tensor_spec:TensorSpec",
        **{name: f"hpcflow.graph.legacy:{name}" for name in (
            "prepend_name_scope", "strip_name_scope")},
        "convert_to_tensor_or_sparse_tensor":
            "hpcflow.graph.sparse_tensor:convert_to_tensor_or_sparse_tensor",
        **{name: f"hpcflow.contrib.framework.tensors:{name}" for name in (
            "assert_or_get_global_step", "assert_scalar_int", "get_graph_from_inputs",
            "get_placeholders", "global_variable", "reduce_sum_n", "remove_squeezable_dimensions",
            "with_same_shape", "with_shape", "zero_initializer")},
    },
    "hpcflow.contrib.distribute": {
        **{name: f"hpcflow.distribute:{now}" for name, now in {
            **{name: name for name in (
                "CrossDeviceOps", "DistributeConfig", "OneDeviceStrategy", "ReplicaContext",
                "StrategyExtended", "get_loss_reduction", "get_replica_context", "get_strategy",
                "has_strategy", "in_cross_replica_context")},
            "AllReduceCrossDeviceOps": "NcclAllReduce", "DistributionStrategy": "Strategy",
            "DistributionStrategyExtended": "StrategyExtended",
            "ReductionToOneDeviceCrossDeviceOps": "ReductionToOneDevice",
            "get_distribution_strategy": "get_strategy",
            "has_distribution_strategy": "has_strategy",
        }.items()},
        **{name: f"hpcflow.distribute.experimental:{name}" for name in (
            "ParameterServerStrategy", "TPUStrategy")},
    },
    "hpcflow.contrib.eager": {
        "TensorSpec": "hpcflow.graph.tensor_spec:TensorSpec",
        "custom_gradient": "hpcflow:custom_gradient", "make_template": "hpcflow:make_template",
    },
    "hpcflow.contrib.graph_editor": {name: f"hpcflow.contrib.graph_editor.{name}" for name in (
        "edit", "reroute", "select", "subgraph", "transform", "util")},
    "hpcflow.contrib.layers": {
        **{name: f"hpcflow.contrib.layers.columns:{name}" for name in (
            "sparse_column_with_hash_bucket", "sparse_column_with_integerized_feature",
            "sparse_column_with_keys", "sparse_column_with_vocabulary_file",
            "weighted_sparse_column")},
        **{name: f"hpcflow.contrib.layers.dense_columns:{name}" for name in (
            "embedding_column", "one_hot_column", "shared_embedding_columns")},
        **{name: f"hpcflow.contrib.layers.numeric_columns:{name}" for name in (
            "bucketized_column", "crossed_column", "real_valued_column")},
        **{name: f"hpcflow.contrib.layers.column_layers:{name}" for name in (
            "check_feature_columns", "create_feature_spec_for_parsing",
            "infer_real_valued_columns", "input_from_feature_columns",
            "make_place_holder_tensors_for_base_features", "parse_feature_columns_from_examples",
            "transform_features", "weighted_sum_from_feature_columns")},
    },
    "hpcflow.contrib.learn": {name: f"hpcflow.contrib.learn.python.learn.{name}" for name in (
        "estimators", "utils")},
    "hpcflow.contrib.lookup": {
        f"string_to_index_table_from_{source}":
            f"hpcflow.contrib.lookup.vocabulary:index_table_from_{source}"
        for source in ("file", "tensor")},
    "hpcflow.contrib.nn": {"nth_element": "raw:NthElement"},
    "hpcflow.signal.spectral": {name: f"hpcflow.signal.cosine:{name}" for name in ("dct", "idct")},
    "hpcflow.estimator.experimental": {
        "KMeans": "hpcflow.contrib.factorization:KMeansClustering",
        "build_raw_supervised_input_receiver_fn":
            "hpcflow.estimator.supervised:build_raw_supervised_input_receiver_fn",
    },
    "hpcflow.estimator": {
        "tpu": "hpcflow.contrib.tpu", "VocabInfo": "hpcflow.train:VocabInfo",
        "ProfilerHook": "hpcflow.tools.profiler_hook:ProfilerHook", **{
        name: f"hpcflow.estimator.more_heads:{now}" for name, now in {
            "BinaryClassHead": "binary_classification_head",
            "LogisticRegressionHead": "logistic_regression_head",
            "MultiClassHead": "multi_class_head", "MultiHead": "multi_head",
            "MultiLabelHead": "multi_label_head",
            "PoissonRegressionHead": "poisson_head_by_dimension",
            "RegressionHead": "regression_head_by_dimension"}.items()}, **{
        name: f"hpcflow.estimator.parsing:{name}" for name in (
            "classifier_parse_example_spec", "regressor_parse_example_spec")}, **{
        name: f"hpcflow.train:{name}" for name in (
        "CheckpointSaverHook", "CheckpointSaverListener", "FeedFnHook", "FinalOpsHook",
        "GlobalStepWaiterHook", "LoggingTensorHook", "NanLossDuringTrainingError", "NanTensorHook",
        "SecondOrStepTimer", "SessionRunArgs", "SessionRunContext", "SessionRunHook",
        "SessionRunValues", "StepCounterHook", "StopAtStepHook", "SummarySaverHook")}},
    "hpcflow.data.experimental": {
        "map_and_batch_with_legacy_function": "hpcflow.data.experimental:map_and_batch",
        "make_saveable_from_iterator":
            "hpcflow.train.saved_iterators:make_saveable_from_iterator",
        "CheckpointInputPipelineHook":
            "hpcflow.train.saved_iterators:CheckpointInputPipelineHook",
    },
    "hpcflow.image": {
        "extract_image_patches": "hpcflow:extract_image_patches",
        "extract_patches": "hpcflow.image.resizing:extract_patches",
        "random_crop": "hpcflow:random_crop",
        "per_image_whitening": "hpcflow.image:per_image_standardization",
        "resize": "hpcflow.image:resize_images",
        "resize_with_crop_or_pad": "hpcflow.image:resize_image_with_crop_or_pad",
        "transpose": "hpcflow.image:transpose_image",
    },
    "hpcflow.linalg": {
        **{name: f"hpcflow.ops.linalg.matrix_functions:{name}" for name in (
            "expm", "logm", "lu", "lu_matrix_inverse", "lu_reconstruct", "lu_solve", "matrix_rank",
            "matvec", "normalize", "pinv", "sqrtm")},
        **{name: f"hpcflow.ops.linalg.tridiagonal:{name}" for name in (
            "tridiagonal_matmul", "tridiagonal_solve")},
        **{name: f"hpcflow.linear_operators:{name}" for name in ("LinearOperator", *(
            f"LinearOperator{kind}" for kind in (
                "Adjoint", "BlockDiag", "Circulant", "Circulant2D", "Circulant3D", "Composition",
                "Diag", "FullMatrix",
                "Householder", "Identity", "Inversion", "Kronecker", "LowRankUpdate",
                "LowerTriangular", "ScaledIdentity", "Toeplitz", "Zeros")))},
        "l2_normalize": "hpcflow.nn:l2_normalize",
        "adjoint": "hpcflow.ops.linalg.linalg:adjoint",
        "logdet": "hpcflow.ops.linalg.linalg:logdet",
        "slogdet": "hpcflow.ops.linalg.linalg:slogdet",
        "cholesky": "hpcflow:cholesky", "det": "hpcflow:matrix_determinant",
        "eigh": "hpcflow:self_adjoint_eig", "eigvalsh": "hpcflow:self_adjoint_eigvals",
        "inv": "hpcflow:matrix_inverse", "lstsq": "hpcflow:matrix_solve_ls",
        "tensor_diag": "hpcflow:diag", "tensor_diag_part": "hpcflow:diag_part",
    },
    "hpcflow.math": {
        **{name: f"hpcflow.nn:{name}" for name in (
            "in_top_k", "l2_normalize", "log_softmax", "softmax", "softplus", "softsign", "top_k",
            "zero_fraction")},
        "cumulative_logsumexp": "hpcflow.ops.math.cumulative:cumulative_logsumexp",
        **{name: f"raw:{op_type}" for name, op_type in {
            "bessel_i0": "BesselI0", "bessel_i0e": "BesselI0e", "bessel_i1": "BesselI1",
            "bessel_i1e": "BesselI1e", "erfinv": "Erfinv", "ndtri": "Ndtri",
            "divide_no_nan": "DivNoNan", "multiply_no_nan": "MulNoNan", "nextafter": "NextAfter",
            "xdivy": "Xdivy", "xlog1py": "Xlog1py", "xlogy": "Xlogy",
        }.items()},
    },
    "hpcflow.nn": {
        "avg_pool2d": "hpcflow.nn:avg_pool", "max_pool2d": "hpcflow.nn:max_pool",
        "conv3d_backprop_filter": "hpcflow.nn:conv3d_backprop_filter_v2",
        "depth_to_space": "hpcflow:depth_to_space", "space_to_depth": "hpcflow:space_to_depth",
        "depthwise_conv2d_backprop_filter": "hpcflow.nn:depthwise_conv2d_native_backprop_filter",
        "depthwise_conv2d_backprop_input": "hpcflow.nn:depthwise_conv2d_native_backprop_input",
        "bidirectional_rnn": f"{_RNN}:static_bidirectional_rnn",
        "rnn": f"{_RNN}:static_rnn", "rnn_cell": f"{_RNN}.nn_cells", "selu": "raw:Selu",
        "seq2seq": "hpcflow.contrib.legacy_seq2seq",
        "safe_embedding_lookup_sparse": "hpcflow.contrib.layers:safe_embedding_lookup_sparse",
        "silu": "hpcflow.nn:swish",
        "state_saving_rnn": f"{_RNN}:static_state_saving_rnn",
        "static_bidirectional_rnn": f"{_RNN}:static_bidirectional_rnn",
        "static_rnn": f"{_RNN}:static_rnn",
        "static_state_saving_rnn": f"{_RNN}:static_state_saving_rnn",
    },
    "hpcflow.random": {
        **{name: f"hpcflow.nn:{name}" for name in (
            "all_candidate_sampler", "fixed_unigram_candidate_sampler",
            "learned_unigram_candidate_sampler", "log_uniform_candidate_sampler",
            "uniform_candidate_sampler")},
        **{name: f"hpcflow.ops.random.stateless_random:{name}" for name in (
            "stateless_categorical", "stateless_multinomial", "stateless_normal",
            "stateless_truncated_normal", "stateless_uniform")},
        "categorical": "hpcflow.ops.random.random_ops:categorical",
        "set_random_seed": "hpcflow:set_random_seed",
    },
    "hpcflow.sparse": {
        "from_dense": "hpcflow.ops.sparse.sparse_layout:from_dense",
        **dict.fromkeys(("matmul", "sparse_dense_matmul"), "hpcflow:sparse_tensor_dense_matmul"),
        "to_dense": "hpcflow:sparse_tensor_to_dense",
        "cross": "hpcflow.ops.sparse.sparse_cross:sparse_cross",
        "cross_hashed": "hpcflow.ops.sparse.sparse_cross:sparse_cross_hashed",
    },
    "hpcflow.strings": {
        **{name: f"raw:{op_type}" for name, op_type in {
            "lower": "StringLower", "strip": "StringStrip", "upper": "StringUpper",
            "unicode_transcode": "UnicodeTranscode", "unsorted_segment_join": "UnsortedSegmentJoin",
        }.items()},
        **{name: f"hpcflow.ops.strings.string_rewriting:{name}" for name in (
            "regex_full_match", "regex_replace")},
        "format": "hpcflow.ops.strings.string_formatting:string_format",
        "length": "hpcflow.ops.strings.string_rewriting:string_length",
        "split": "hpcflow.ops.strings.string_splitting:strings_split",
    },
    "hpcflow.summary": {
        "all_v2_summary_ops": "hpcflow.contrib.summary:all_summary_ops",
        "initialize": "hpcflow.contrib.summary:initialize",
    },
    "hpcflow.train": {
        "SummaryWriter": "hpcflow.summary:FileWriter",
        **{name: f"hpcflow.train.checkpoint_files:{name}" for name in (
            "checkpoints_iterator", "remove_checkpoint")},
        "piecewise_constant_decay": "hpcflow.train:piecewise_constant",
        "ProfilerHook": "hpcflow.tools.profiler_hook:ProfilerHook",
        **{name: f"hpcflow.contrib.framework:{name}" for name in (
            "list_variables", "load_checkpoint", "load_variable")},
    },
}  # fmt: skip

# Modules that 1.x got later, by what their names are called in the package itself.
MODULES: dict[str, tuple[str, ...]] = {
    "bitwise": ("{}",),
    "debugging": ("{}",),
    "initializers": ("{}_initializer", "{}"),
    "io": ("{}",),
    "linalg": ("matrix_{}", "{}"),
    "manip": ("{}",),
    "math": ("{}",),
    "quantization": ("{}",),
    "queue": ("{}",),
    "random": ("random_{}", "{}"),
    "sparse": ("sparse_{}", "{}"),
    "strings": ("string_{}", "{}"),
}


def _resolve(path: str) -> Any:
    module, _, name = path.partition(":")
    if module == _RAW:
        return getattr(importlib.import_module("hpcflow.graph.raw").raw_ops, name)
    found = importlib.import_module(module)
    return getattr(found, name) if name else found


def find(module: str, name: str) -> Any:
    """Return the object that a name of :data:`NAMES` stands for in `module`.

    Raises ``AttributeError`` for a name that nothing is known of.
    """
    path = NAMES.get(module, {}).get(name)
    if path is None:
        raise AttributeError(f"module '{module}' has no attribute '{name}'"
                             f"{absent_names.hint(module, name)}")
    return _resolve(path)


late_names.use(find)


class _LaterModule(ModuleType):
    """A module of :data:`MODULES`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"hpcflow.{name}", "What the package has, by the names of this module.")
        self._forms = MODULES[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        package = sys.modules["hpcflow"]
        if name not in NAMES.get(self.__name__, ()):
            for form in self._forms:
                found = getattr(package, form.format(name), None)
                if found is not None:
                    return found
        return find(self.__name__, name)


@functools.cache
def later_module(name: str) -> ModuleType:
    """The module ``hpcflow.name`` of :data:`MODULES`."""
    return _LaterModule(name)
