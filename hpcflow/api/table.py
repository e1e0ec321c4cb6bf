"""The sources of the module paths of 1.x."""

from __future__ import annotations

from hpcflow.api.columns_table import COLUMNS
from hpcflow.api.contrib_table import CONTRIB
from hpcflow.api.data_table import DATA
from hpcflow.api.entry import RAW, Entry, members
from hpcflow.api.keras_table import KERAS
from hpcflow.api.operators_table import OPERATORS
from hpcflow.api.protos_table import CORE
from hpcflow.api.training_table import TRAINING

_API = "hpcflow"
_NN = "hpcflow.nn"
_TRAIN = "hpcflow.train"
_GRAPH = "hpcflow.graph."


_DEVICE_SPEC = {"DeviceSpecV1": "hpcflow:DeviceSpec"}
_FRAMEWORK = {
    "composite_tensor": Entry((), members(_GRAPH + "composite_specs", "CompositeTensor")),
    "common_shapes": Entry((_GRAPH + "shape_inference",), {
        "broadcast_shape": "hpcflow:broadcast_static_shape",
        "call_cpp_shape_fn": _GRAPH + "shape_inference:unknown",
        "scalar_shape": _GRAPH + "shape_inference:scalar",
        "unknown_shape": _GRAPH + "shape_inference:unknown",
        **members("hpcflow.shapes", "is_broadcast_compatible")}),
    "constant_op": Entry((_API,), {"constant_v1": "hpcflow:constant",
                                   "constant": "hpcflow.graph.convert:broadcast_constant",
                                   "_tensor_shape_tensor_conversion_function":
                                       _GRAPH + "convert:_shape_conversion"}),
    "device": Entry(("hpcflow.device_spec",), _DEVICE_SPEC),
    "device_spec": Entry(("hpcflow.device_spec",), _DEVICE_SPEC),
    "dtypes": Entry(("hpcflow.dtypes",)),
    **{name: Entry(("hpcflow.errors",), members("hpcflow.errors", "_make_specific_exception"))
       for name in ("errors", "errors_impl")},
    "framework_lib": Entry((_API,)),
    "function": Entry(("hpcflow.framework.function", "hpcflow.framework.function_protos"), {
        "_DefinedFunction": "hpcflow.framework.function:DefinedFunction",
        "_OverloadedFunction": "hpcflow.framework.function:OverloadedFunction",
        "_from_definition": "hpcflow.framework.function_protos:from_definition"}),
    "graph_io": Entry((_TRAIN,)),
    "graph_util": Entry(("hpcflow.graph_util",)),
    "graph_util_impl": Entry(("hpcflow.graph_util",)),
    "indexed_slices": Entry((_GRAPH + "indexed_slices", _GRAPH + "composite_specs")),
    "importer": Entry((), members("hpcflow", "import_graph_def")),
    "meta_graph": Entry(("hpcflow.metagraph.scoped_meta_graph", "hpcflow.metagraph.meta_graph")),
    "load_library": Entry(("hpcflow.platform.libraries",)),
    "op_def_library": Entry((_GRAPH + "build",)),
    "op_def_registry": Entry((_GRAPH + "opdef",), {
        "get_registered_ops": _GRAPH + "opdef:registered_ops"}),
    "ops": Entry((_API, _GRAPH + "convert", _GRAPH + "graph", _GRAPH + "indexed_slices",
                  _GRAPH + "opdef", _GRAPH + "operation"),
                 {**members("hpcflow.metagraph.collection_protos", "register_proto_function"),
                  **members(_GRAPH + "legacy", "get_gradient_function", "name_from_scope_name",
                          "strip_name_scope", "prepend_name_scope", "get_all_collection_keys",
                          "inside_function", "add_to_collections", "EagerTensor",
                          "convert_n_to_tensor_or_indexed_slices"),
                  **members("hpcflow.ops.state.tensor_likes", "is_dense_tensor_like",
                          "register_dense_tensor_like_type"),
                  "RegisterShape": _GRAPH + "legacy:RegisterShape",
                  "_NodeDef": _GRAPH + "legacy:node_def",
                  "_get_graph_from_inputs": _GRAPH + "graph:graph_of",
                  "convert_to_tensor_v2": _GRAPH + "legacy:convert_to_tensor_v2",
                  "_TensorLike": "hpcflow.ops.state.tensor_likes:TensorLike",
                  "get_name_scope": "hpcflow.contrib.framework:get_name_scope",
                  "_set_call_cpp_shape_fn": _GRAPH + "legacy:set_call_cpp_shape_fn",
                  **members(_GRAPH + "op_statistics", "OpStats", "RegisterStatistics"),
                  "get_stats_for_node_def": "hpcflow.profiler.flops:stats_for_node_def",
                  "_gradient_registry": _GRAPH + "gradient_registry:gradient_registry",
                  "uid": _GRAPH + "legacy:uid"}),
    "random_seed": Entry(("hpcflow.ops.random.random_ops",), members("hpcflow", "set_random_seed")),
    "sparse_tensor": Entry((_GRAPH + "sparse_tensor", _GRAPH + "composite_specs")),
    "tensor_shape": Entry(("hpcflow.shapes",)),
    "tensor_conversion_registry": Entry((_GRAPH + "convert",)),
    "tensor_spec": Entry((_GRAPH + "tensor_spec", _GRAPH + "bounded_spec")),
    "type_spec": Entry((_GRAPH + "type_spec",), members(
        _GRAPH + "composite_specs", "type_spec_from_value",
        "register_type_spec_from_value_converter")),
    "tensor_util": Entry((_GRAPH + "tensor_proto", _GRAPH + "shape_inference"),
                         {"MakeNdarray": "hpcflow.contrib.util:make_ndarray",
                          **members(_GRAPH + "legacy", "is_tensor", "constant_value",
                                    "constant_value_as_shape", "ShapeEquals",
                                    "TensorShapeProtoToList")}),
    "smart_cond": Entry(("hpcflow.layers.helpers",)),
    "test_util": Entry(("hpcflow.test_util", "hpcflow.test_util.layouts",
                        "hpcflow.test_util.decorators", "hpcflow.test_util.graph_defs"),
                       {"TensorFlowTestCase": "hpcflow.test_util:TestCase"}),
    "versions": Entry((_API,), {"__version__": "hpcflow:__version__", **dict.fromkeys(
        ("__git_version__", "__compiler_version__"), "hpcflow:VERSION")}),
}  # fmt: skip

_OP_MODULES = {
    "array_grad": (), "array_ops": (), "candidate_sampling_ops": (_NN,), "check_ops": (),
    "clip_ops": (), "confusion_matrix": (), "control_flow_grad": (), "control_flow_ops": (),
    "control_flow_util": ("hpcflow.ops.flow.op_kinds",),
    "data_flow_grad": (), "data_flow_ops": (),
    "functional_ops": ("hpcflow.ops.flow.function_branches", "hpcflow.ops.flow.function_calls"),
    "histogram_ops": (),
    "image_grad": (),
    "io_ops": (), "linalg_grad": (), "linalg_impl": (),
    "linalg_ops": (), "logging_ops": (),
    "math_grad": (), "metrics": ("hpcflow.metrics",),
    "nn": (_NN,), "nn_grad": (_NN,), "nn_impl": (_NN,), "nn_ops": (_NN,),
    "numerics": (), "parsing_ops": (), "partitioned_variables": (), "random_grad": (),
    "random_ops": (), "resource_variable_ops": (), "rnn": (_NN, "hpcflow.contrib.rnn"),
    "rnn_cell": ("hpcflow.contrib.rnn.nn_cells", "hpcflow.contrib.rnn"),
    "script_ops": (), "session_ops": (), "sets": ("hpcflow.ops.sparse.sets",),
    "sets_impl": ("hpcflow.ops.sparse.sets",),
    "sparse_grad": (), "special_math_ops": (), "spectral_ops":
    ("hpcflow.signal.spectral",), "standard_ops": (), "state_grad": (),
    "summary_ops": (), "template": (), "tensor_array_grad": (),
    "tensor_array_ops": (), "variable_scope": ("hpcflow.ops.state.variable_scope",
                                               "hpcflow.ops.state.variable_store"),
    "custom_gradient": ("hpcflow.autodiff.custom",), "resources": ("hpcflow.ops.state.resources",),
    "weights_broadcast_ops": ("hpcflow.nn.weighting",),
    "batch_ops": (), "bitwise_ops": ("hpcflow:bitwise",), "collective_ops": (),
    "control_flow_state": (), "gradients_util": (),
    "clustering_ops": (), "op_selector": ("hpcflow.contrib.graph_editor",),
    "critical_section_ops": ("hpcflow.ops.state.critical_section",),
    "init_ops_v2": ("hpcflow.ops.state.initializers",),
    "initializers_ns": ("hpcflow:initializers",), "inplace_ops": ("hpcflow.ops.arrays.inplace",),
    "linalg_ops_impl": (),
    "manip_grad": (), "manip_ops": ("hpcflow:manip",), "map_fn": (),
    "rnn_grad": (), "sdca_ops": (), "sort_ops": (), "stateless_random_ops": (),
    "unconnected_gradients": (),
}  # fmt: skip
_GENERATED = (
    "array", "audio", "batch", "bitwise", "candidate_sampling", "checkpoint", "clustering",
    "collective", "control_flow", "ctc", "cudnn_rnn", "data_flow", "dataset",
    "experimental_dataset", "functional", "image", "io", "linalg", "list", "logging", "lookup",
    "manip", "math", "nccl", "nn", "parsing", "random", "resource_variable", "rnn",
    "script", "sdca", "sendrecv", "set", "sparse", "spectral", "state", "stateless_random",
    "string", "summary", "user",
)

_DISTRIBUTIONS = {f"distributions.{name}": Entry(
    ("hpcflow.distributions", "hpcflow.distributions.softened")) for name in (
    "bernoulli", "beta", "categorical", "dirichlet", "dirichlet_multinomial", "distribution",
    "distributions", "exponential", "gamma", "laplace", "multinomial", "normal",
    "student_t", "uniform")}
_DISTRIBUTIONS |= {f"distributions.{name}": Entry((f"hpcflow.distributions.{name}",))
                   for name in ("special_math", "util")}
_DISTRIBUTIONS |= {f"distributions.{name}": Entry(("hpcflow.contrib.distributions.bijectors",))
                   for name in ("bijector", "bijector_impl", "identity_bijector")}
_DISTRIBUTIONS["distributions.kullback_leibler"] = Entry(("hpcflow.distributions",), {
    "_DIVERGENCES": "hpcflow.distributions.divergence:_REGISTRY",
    "_registered_kl": "hpcflow.distributions.divergence:_registered"})
_CELL_HELPERS = {name: f"hpcflow.contrib.rnn.linear:{own}" for name, own in (
    ("_concat", "concat_shapes"), ("_linear", "linear"), ("_Linear", "Linear"),
    ("_like_rnncell", "like_rnncell"), ("assert_like_rnncell", "assert_like_rnncell"),
    ("_transpose_batch_time", "transpose_batch_time"),
    ("_zero_state_tensors", "zero_state_tensors"))}

_OPS = {
    **{name: Entry((*first, _API, RAW)) for name, first in _OP_MODULES.items()},
    **{f"{name}_grad": Entry((*_OP_MODULES[f"{name}_grad"], _API, RAW,
                              _GRAPH + "gradient_functions")) for name in (
        "array", "control_flow", "data_flow", "image", "linalg", "manip", "math", "nn", "random",
        "rnn", "sparse", "state", "tensor_array")},
    **{f"gen_{family}_ops": Entry((RAW,)) for family in _GENERATED},
    "gen_functional_ops": Entry((RAW,), members("hpcflow.ops.flow.function_branches", "case")),
    "inplace_ops": Entry(("hpcflow.ops.arrays.inplace",), {
        f"alias_{name}": f"hpcflow.ops.arrays.inplace:{name}" for name in (
            "inplace_add", "inplace_sub", "inplace_update")}),
    "summary_op_util": Entry(("hpcflow.summary.op_scopes",)),
    "rnn": Entry((_NN, "hpcflow.contrib.rnn", _API, RAW), {
        "rnn_cell_impl": "hpcflow.contrib.rnn", **_CELL_HELPERS}),
    "resource_variable_ops": Entry(
        (_API, RAW), members("hpcflow.ops.state.handle_variables", "ResourceVariable",
                           "is_resource_variable")
        | members("hpcflow.ops.state.resource_variables", "variable_shape")),
    "rnn_cell_impl": Entry(("hpcflow.contrib.rnn.nn_cells", "hpcflow.contrib.rnn"),
                           {"_RNNCell": "hpcflow.contrib.rnn:RNNCell",
                            "LayerRNNCell": "hpcflow.contrib.rnn:RNNCell", **_CELL_HELPERS,
                            **{f"_{name}": f"hpcflow.contrib.rnn.nn_cells:{name}" for name in (
                                "WEIGHTS_VARIABLE_NAME", "BIAS_VARIABLE_NAME")}}),
    "state_ops": Entry(("hpcflow.ops.state.state", _API, RAW),
                       {"variable_op_v2": "hpcflow.ops.state.state:variable_op"}),
    "logging_ops": Entry((_API, RAW), {"print_v2": "hpcflow:print"}),
    "lookup_ops": Entry(("hpcflow.contrib.lookup", _API, RAW), {
        "DenseHashTable": "hpcflow.contrib.lookup:MutableDenseHashTable"}),
    "math_ops": Entry((_API, "hpcflow:math", RAW), {
        "matvec": "hpcflow:linalg.matvec",
        "reduced_shape": "hpcflow.ops.math.reductions:reduced_shape"}),
    "parsing_ops": Entry((_API, RAW), {"decode_raw_v1": "hpcflow:decode_raw"}),
    "random_ops": Entry((_API, RAW), members("hpcflow.ops.random.random_ops",
                                           "parameterized_truncated_normal")),
    "sparse_ops": Entry(("hpcflow.ops.sparse.sparse_cross", _API, RAW), {
        "_DEFAULT_HASH_KEY": "hpcflow.ops.sparse.sparse_cross:DEFAULT_KEY",
        **members("hpcflow.ops.sparse.sparse_math", "sparse_dense_cwise_add"),
        **members("hpcflow.ops.sparse.sparse_layout", "from_dense", "sparse_concat_v2"),
        **members("hpcflow.ops.sparse.sparse_serialization", "deserialize_sparse"),
        **{f"_{name}": f"hpcflow.ops.sparse.sparse_serialization:{name}" for name in (
            "add_sparse_to_tensors_map", "add_many_sparse_to_tensors_map",
            "take_many_sparse_from_tensors_map")}}),
    **{name: Entry(("hpcflow.ops.state.initializers",
                    "hpcflow.ops.state.convolutional_initializers", _API, RAW),
                   {"_compute_fans": "hpcflow.ops.state.initializers:_fans"})
       for name in ("init_ops", "init_ops_v2")},
    "string_ops": Entry((_API, "hpcflow.ops.strings.string_formatting",
                         "hpcflow.ops.strings.string_splitting", RAW), {
        **members("hpcflow.ops.strings.string_rewriting", "regex_full_match", "regex_replace",
                "string_length")}),
    "check_ops": Entry((_API, RAW), {
        "assert_shapes": "hpcflow.ops.flow.shape_checks:assert_shapes",
        **members("hpcflow.ops.flow.checks", "assert_scalar")}),
    "array_ops": Entry((_API, RAW), {**members("hpcflow.ops.arrays.batch_gathering",
                                             "batch_gather_nd"),
                                     "_SLICE_TYPE_ERROR": "hpcflow.ops.arrays.slicing:INDEX_KINDS",
                                     "gather_v2": "hpcflow.api.compat.v2:gather",
                                     **members("hpcflow.ops.compat.other_versions", "rank_internal",
                                             "shape_internal", "size_internal")}),
    "confusion_matrix": Entry((_API, RAW), members("hpcflow.nn.weighting",
                                                 "remove_squeezable_dimensions")),
    **{name: Entry((f"hpcflow.test_util.{name}",), {
        "_to_numpy": "hpcflow.test_util.gradient_checker_v2:_to_numpy"}) for name in (
        "gradient_checker", "gradient_checker_v2")},
    **{name: Entry((_API, RAW), {
        "_hessian_vector_product": "hpcflow.autodiff.gradients:hessian_vector_product",
        "gradients_v2": "hpcflow.api.compat.v2:gradients"})
       for name in ("gradients", "gradients_impl")},
    "metrics_impl": Entry(("hpcflow.metrics", _API, RAW), {
        "_streaming_confusion_matrix": "hpcflow.metrics.classes:streaming_confusion_matrix",
        "_confusion_matrix_at_thresholds":
            "hpcflow.metrics.thresholds:confusion_matrix_at_thresholds",
        "_remove_squeezable_dimensions": "hpcflow.metrics.state:remove_squeezable_dimensions",
        "_aggregate_variable": "hpcflow.metrics.state:read_value",
        "_safe_scalar_div": "hpcflow:div_no_nan",
        "_streaming_sparse_average_precision_at_top_k":
            "hpcflow.metrics.top_k:average_precision_at_top_k",
        **members("hpcflow.metrics.state", "metric_variable")}),
    "control_flow_ops": Entry(
        ("hpcflow.ops.common.grouping", "hpcflow.ops.flow.routing", "hpcflow.ops.flow.cond_context",
         "hpcflow.ops.flow.while_context", _API, RAW), {
            "_SwitchRefOrTensor": "hpcflow.ops.flow.routing:switch_ref_or_tensor",
            "_case_helper": "hpcflow.ops.flow.cond:case_of_conds",
            **{f"_{name}": f"hpcflow.ops.flow.routing:{function}" for name, function in (
                ("Identity", "identity"), ("Enter", "enter"),
                ("NextIteration", "next_iteration"))}}),
    "list_ops": Entry(("hpcflow.ops.flow.list_functions", _API, RAW), {
        "_build_element_shape": "hpcflow.ops.flow.list_functions:_sizes"}),
    **_DISTRIBUTIONS,
    "ragged.ragged_tensor": Entry((), members(_GRAPH + "legacy", "is_ragged")),
    **{f"signal.{name}": Entry(("hpcflow.signal", _API)) for name in (
        "dct_ops", "fft_ops", "mel_ops", "mfcc_ops", "reconstruction_ops", "shape_ops", "signal",
        "spectral_ops", "window_ops")},
    **{f"linalg.{name}": entry for name, entry in OPERATORS.items()},
    "linalg.linalg": Entry(("hpcflow:linalg", "hpcflow.linear_operators", _API), {
        "linalg": "hpcflow:linalg"}),
    "linalg.linalg_impl": Entry(("hpcflow:linalg", _API), {
        "matrix_exponential": "hpcflow:linalg.expm"}),
    "nn_ops": Entry((_NN, _API, RAW), {
        **members("hpcflow.nn.pooling", "fractional_avg_pool_v2", "fractional_max_pool_v2"),
        **members("hpcflow.nn.built_convolution", "Convolution")}),
    "embedding_ops": Entry((_NN, _API, RAW), {
        **members("hpcflow.contrib.layers.embedding", "safe_embedding_lookup_sparse_v2"),
        "_embedding_lookup_and_transform": "hpcflow.nn.embedding:embedding_lookup_and_transform"}),
    "ctc_ops": Entry((_NN, _API, RAW), {
        **members("hpcflow.nn.ctc", "dense_labels_to_sparse"),
        "ctc_loss_dense": "hpcflow.nn.ctc:ctc_loss_v2"}),
    **dict.fromkeys(("image_ops", "image_ops_impl"), Entry(("hpcflow.image", _API, RAW), {
        "extract_glimpse_v2": "hpcflow.api.compat.v2:image.extract_glimpse"})),
    "template": Entry(("hpcflow.ops.state.templates", _API, RAW)),
    "variable_scope": Entry(
        ("hpcflow.ops.state.variable_scope", "hpcflow.ops.state.variable_store", _API, RAW),
        {"variable": "hpcflow.ops.state.variables:Variable",
         "_PartitionInfo": "hpcflow.ops.state.partitioned:PartitionInfo",
         "_get_default_variable_store": "hpcflow.ops.state.variable_scope:default_store",
         "_pure_variable_scope": "hpcflow.ops.state.variable_scope:pure_variable_scope",
         "variable_creator_scope": "hpcflow.ops.state.creators:variable_creator_scope"}),
    "variables": Entry(("hpcflow.ops.state.variables", "hpcflow.ops.state.partitioned", _API, RAW),
                       {**dict.fromkeys(("VariableV1", "RefVariable"),
                                        "hpcflow.ops.state.variables:Variable"),
                        "VariableAggregationV2": "hpcflow:VariableAggregation",
                        "_all_saveable_objects":
                            "hpcflow.ops.state.variable_lists:all_saveable_objects"}),
    "losses.losses": Entry(("hpcflow.losses",)),
    "losses.losses_impl": Entry(("hpcflow.losses",)),
    "losses.util": Entry(("hpcflow.losses",)),
}

_LAYERS = ("base", "convolutional", "core", "layers", "normalization", "pooling")

_OLDER_LAYERS = {
    **{older: now for n in (1, 2, 3) for older, now in (
        (f"Convolution{n}D", f"Conv{n}D"), (f"convolution{n}d", f"conv{n}d"),
        (f"AvgPool{n}D", f"AveragePooling{n}D"), (f"avg_pool{n}d", f"average_pooling{n}d"),
        (f"MaxPool{n}D", f"MaxPooling{n}D"), (f"max_pool{n}d", f"max_pooling{n}d"))},
    **{older: f"Conv{n}DTranspose" for n in (2, 3) for older in (
        f"Convolution{n}DTranspose", f"Deconvolution{n}D", f"Deconv{n}D")},
    **{older: f"conv{n}d_transpose" for n in (2, 3) for older in (
        f"convolution{n}d_transpose", f"deconvolution{n}d", f"deconv{n}d")},
    **{f"SeparableConvolution{n}D": f"SeparableConv{n}D" for n in (1, 2)},
    **{f"separable_convolution{n}d": f"separable_conv{n}d" for n in (1, 2)},
    "FullyConnected": "Dense", "fully_connected": "dense",
    "BatchNorm": "BatchNormalization", "batch_norm": "batch_normalization",
}

_SAVED_MODEL = ("builder", "constants", "loader", "main_op", "nested_structure_coder",
                "signature_constants", "signature_def_utils", "simple_save", "tag_constants",
                "utils")

_PLATFORM = {
    "app": Entry(("hpcflow.platform.app",), {"flags": "hpcflow.platform.flags"}),
    "benchmark": Entry(("hpcflow.test_util.benchmark",),
                       {"_run_benchmarks": "hpcflow.test_util.benchmark:run_benchmarks",
                        "TensorFlowBenchmark": "hpcflow.test_util.benchmark:Benchmark"}),
    "flags": Entry(("hpcflow.platform.flags",)),
    "gfile": Entry(("hpcflow.platform.gfile",)),
    "googletest": Entry(("hpcflow.test_util",), {
        **members("unittest", "TestLoader", "TestSuite", "TextTestRunner", "skip", "skipIf"),
        "GetTempDir": "hpcflow.test_util:get_temp_dir"}),
    "resource_loader": Entry(("hpcflow.platform.resource_loader",)),
    "test": Entry(("hpcflow.test_util",), {
        "IsBuiltWithCuda": "hpcflow.test_util:is_built_with_cuda",
        "is_built_with_rocm": "hpcflow.test_util.layouts:is_built_with_rocm"}),
    "tf_logging": Entry(("hpcflow.platform.logging",)),
}  # fmt: skip

_DECORATING = "hpcflow.platform.inspecting:"
_UTIL = {
    "all_util": Entry((), {"make_all": _DECORATING + "names_of",
                           "remove_undocumented": _DECORATING + "nothing",
                           "reveal_undocumented": _DECORATING + "nothing"}),
    "compat": Entry(("hpcflow.platform.compat",), {"collections_abc": "collections.abc"}),
    "compat_internal": Entry(("hpcflow.platform.compat",), {"path_to_str": "os:fspath"}),
    "decorator_utils": Entry(("hpcflow.platform.decorating",)),
    "deprecation": Entry(("hpcflow.platform.deprecation",)),
    "function_utils": Entry(("hpcflow.platform.inspecting",)),
    "keyword_args": Entry(("hpcflow.platform.decorating",)),
    "object_identity": Entry((_GRAPH + "identity",), {
        "_ObjectIdentityWrapper": _GRAPH + "identity:Reference",
        "_WeakObjectIdentityWrapper": _GRAPH + "identity:WeakReference"}),
    "lazy_loader": Entry(("hpcflow.platform.lazy_loader",)),
    "nest": Entry(("hpcflow.framework.nest", "hpcflow.framework.nest_paths"),
                  {"_is_namedtuple": "hpcflow.framework.nest:is_namedtuple"}),
    "tf_contextlib": Entry(("contextlib",)),
    "tf_decorator": Entry(("hpcflow.platform.decorating",)),
    "tf_export": Entry((), dict.fromkeys(("estimator_export", "keras_export", "tf_export"),
                                         _DECORATING + "unchanged")),
    "tf_inspect": Entry(("hpcflow.platform.inspecting", "inspect"), {"_inspect": "inspect"}),
    "tf_should_use": Entry((), dict.fromkeys(("must_use_result_or_fatal", "should_use_result"),
                                             _DECORATING + "same")),
}

_ESTIMATOR = {
    **{name: Entry(("hpcflow.estimator",)) for name in (
        "canned.dnn", "canned.dnn_linear_combined", "canned.linear", "estimator", "estimator_lib",
        "exporter", "model_fn", "run_config", "training")},
    **{f"export.{name}": Entry(("hpcflow.estimator.export",)) for name in (
        "export", "export_lib", "export_output")},
    **{f"inputs.{name}": Entry(("hpcflow.estimator.inputs",)) for name in (
        "inputs", "numpy_io", "pandas_io")},
    "early_stopping": Entry(("hpcflow.estimator.experimental",)),
    "canned.head": Entry(("hpcflow.estimator.canned_heads",), {
        "_Head": "hpcflow.estimator.canned_heads:Head",
        **{name: f"hpcflow.estimator.canned_heads:{own}" for name, own in (
            ("_binary_logistic_head_with_sigmoid_cross_entropy_loss", "binary_head"),
            ("_binary_logistic_or_multi_class_head", "head_of_classes"),
            ("_multi_class_head_with_softmax_cross_entropy_loss", "classes_head"),
            ("_regression_head", "numbers_head"),
            ("_regression_head_with_mean_squared_error_loss", "numbers_head"))}}),
    "canned.optimizers": Entry((), {
        "get_optimizer_instance": "hpcflow.estimator.canned:optimizer_instance"}),
    "canned.metric_keys": Entry(("hpcflow.estimator.keys",)),
    "canned.prediction_keys": Entry(("hpcflow.estimator.keys",)),
    "util": Entry(("hpcflow.platform.inspecting",)),
}

_PYTHON = {
    # Modules that the package itself shows.
    **{name: _OPS[name] for name in (
        "array_ops", "check_ops", "clip_ops", "control_flow_ops", "data_flow_ops", "init_ops",
        "io_ops", "linalg_ops", "logging_ops", "math_ops", "nn", "nn_ops", "parsing_ops",
        "random_ops", "rnn", "rnn_cell", "script_ops", "sparse_ops", "state_ops", "string_ops",
        "tensor_array_ops", "variable_scope", "variables")},
    **{name: _FRAMEWORK[name] for name in (
        "constant_op", "dtypes", "errors", "framework_lib", "graph_util", "importer",
        "random_seed", "tensor_shape", "tensor_util", "test_util")},
    **{f"estimator.{name}": entry for name, entry in _ESTIMATOR.items()},
    **{f"feature_column.{name}": entry for name, entry in COLUMNS.items()},
    **{f"util.{name}": entry for name, entry in _UTIL.items()},
    "autograph.impl.api": Entry(("hpcflow.contrib.autograph.experimental",)),
    "compat.compat": Entry(("hpcflow.platform.compat",)),
    "eager.context": Entry(("hpcflow.platform.eager_context",)),
    "eager.backprop": Entry(()),
    "eager.monitoring": Entry(("hpcflow.platform.monitoring",)),
    "eager.function": Entry(("hpcflow.platform.eager_context",)),
    **{f"framework.{name}": entry for name, entry in _FRAMEWORK.items()},
    **{f"ops.{name}": entry for name, entry in _OPS.items()},
    **{f"platform.{name}": entry for name, entry in _PLATFORM.items()},
    **{f"training.{name}": entry for name, entry in TRAINING.items()},
    **{f"layers.{name}": Entry(("hpcflow.layers",), {
        older: f"hpcflow.layers:{now}" for older, now in _OLDER_LAYERS.items()})
       for name in _LAYERS},
    "layers.utils": Entry(("hpcflow.layers.helpers",)),
    "client.client_lib": Entry((_API,)),
    **{f"distribute.{name}": Entry(
        ("hpcflow.distribute", "hpcflow.distribute.experimental", "hpcflow.contrib.distribute"),
        {"StrategyV1": "hpcflow.distribute:Strategy"}) for name in (
        "central_storage_strategy", "collective_all_reduce_strategy", "cross_device_ops",
        "distribute_config", "distribute_lib", "distribution_strategy_context",
        "mirrored_strategy", "one_device_strategy", "parameter_server_strategy", "reduce_util",
        "tpu_strategy")},
    **DATA,
    "pywrap_tensorflow": Entry((_TRAIN,), {
        "TF_bfloat16_type": _GRAPH + "legacy:bfloat16_type",
        "TF_TryEvaluateConstant_wrapper": _GRAPH + "legacy:try_evaluate_constant",
        **members("hpcflow.summary.events_writer", "EventsWriter")}),
    "debug": Entry(("hpcflow.tools.debug",)),
    "debug.lib.debug_data": Entry(("hpcflow.tools.debug",)),
    **{f"debug.wrappers.{name}": Entry(("hpcflow.tools.debug",)) for name in (
        "dumping_wrapper", "hooks", "local_cli_wrapper")},
    **{f"grappler.{name}": Entry(("hpcflow.tools.graph_transforms.optimizing",)) for name in (
        "cluster", "tf_optimizer")},
    "client.device_lib": Entry(("hpcflow.platform.device_lib",)),
    "client.session": Entry((_API,), {"BaseSession": "hpcflow:Session",
                                      "SessionInterface": "hpcflow:Session",
                                      **members("hpcflow.runtime.session.fetching",
                                              "register_session_run_conversion_functions")}),
    "client.timeline": Entry(("hpcflow.tools.timeline",)),
    **KERAS,
    "lib.io.file_io": Entry(("hpcflow.platform.file_io",)),
    "lib.io.python_io": Entry(("hpcflow.platform.python_io",)),
    "lib.io.tf_record": Entry(("hpcflow.platform.python_io",)),
    **{f"saved_model.{name}": Entry(("hpcflow.saved_model." + name,)) for name in _SAVED_MODEL},
    **{f"saved_model.{name}": Entry(("hpcflow.saved_model.builder",), {
        "_SavedModelBuilder": "hpcflow.saved_model.builder:SignedModelBuilder"})
       for name in ("builder", "builder_impl")},
    "saved_model.signature_def_utils_impl": Entry(("hpcflow.saved_model.signature_def_utils",)),
    "saved_model.utils_impl": Entry(("hpcflow.saved_model.utils",)),
    "saved_model.main_op_impl": Entry(("hpcflow.saved_model.main_op",)),
    "saved_model.loader_impl": Entry(("hpcflow.saved_model.loader",)),
    "saved_model.saved_model": Entry(("hpcflow.saved_model",)),
    **{f"saved_model.{name}": Entry(()) for name in ("load", "save")},  # of objects: no names
    "summary.summary": Entry(("hpcflow.summary", _API)),
    "summary.plugin_asset": Entry(("hpcflow.summary.plugin_asset",)),
    "summary.summary_iterator": Entry((_TRAIN,)),
    "summary.writer.event_file_writer": Entry(("hpcflow.summary",)),
    "summary.writer.writer": Entry(("hpcflow.summary",)),
    "summary.writer.writer_cache": Entry(("hpcflow.summary",)),
    **{f"tpu.{name}": Entry(("hpcflow.contrib.tpu",)) for name in (
        "ops.tpu_ops", "tpu", "tpu_config", "tpu_estimator", "tpu_function", "tpu_optimizer")},
    "tools.freeze_graph": Entry(("hpcflow.tools.freeze_graph",)),
    "tools.inspect_checkpoint": Entry(("hpcflow.tools.inspect_checkpoint",)),
    "tools.saved_model_utils": Entry(("hpcflow.contrib.saved_model.reading",
                                      "hpcflow.saved_model.files")),
    **{f"tools.{name}": Entry(("hpcflow.tools.optimize_for_inference",)) for name in (
        "optimize_for_inference_lib", "strip_unused_lib")},
    "tf2": Entry((), {"enabled": "hpcflow:executing_eagerly"}),
    "user_ops.user_ops": Entry(("hpcflow.user_ops",)),
}

# The packages that keras was in before.
_OLDER_KERAS = {path.removeprefix("keras."): entry for path, entry in _PYTHON.items()
                if path.startswith("keras.")}
_PYTHON |= {f"keras._impl.keras.{path}": entry for path, entry in _OLDER_KERAS.items()}

_DIGITS = "hpcflow.contrib.learn.datasets.mnist"
_EXAMPLES = {
    "tutorials.mnist": Entry((), {"input_data": _DIGITS, "mnist": f"{_DIGITS}_network"}),
    "tutorials.mnist.input_data": Entry((_DIGITS,)),
    "tutorials.mnist.mnist": Entry((f"{_DIGITS}_network",)),
}

MODULES = {
    **{f"hpcflow.examples.{path}": entry for path, entry in _EXAMPLES.items()},
    **{f"hpcflow.contrib.{path}": entry for path, entry in CONTRIB.items()},
    **{f"hpcflow.contrib.keras.python.keras.{path}": entry
       for path, entry in _OLDER_KERAS.items()},
    **{f"hpcflow.python.{path}": entry for path, entry in _PYTHON.items()},
    **{f"hpcflow.core.{path}": entry for path, entry in CORE.items()},
}


def packages() -> set[str]:
    """The paths above those of `MODULES`; ``hpcflow.contrib`` is a package of files."""
    above = {"hpcflow.python", "hpcflow.core", "hpcflow.examples"}
    for path in MODULES:
        names = path.split(".")
        above |= {".".join(names[:n]) for n in range(3, len(names))}
    return above
