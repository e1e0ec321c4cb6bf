"""The module paths of 1.x programs: ``hpcflow.python.*`` and ``hpcflow.core.*``."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow.api import aliases
from hpcflow.api.table import MODULES

# Per path, names that 1.x programs and unit tests take from it.
USED = {
    "contrib.eager.python.tfe": "in_eager_mode executing_eagerly defun Variable",
    "python.client.device_lib": "list_local_devices",
    "python.eager.context": "context in_graph_mode in_eager_mode executing_eagerly graph_mode",
    "python.estimator.canned.metric_keys": "MetricKeys",
    "python.estimator.canned.prediction_keys": "PredictionKeys",
    "python.estimator.estimator": "Estimator",
    "python.estimator.export.export_output": "PredictOutput ClassificationOutput",
    "python.estimator.inputs.numpy_io": "numpy_input_fn",
    "python.estimator.inputs.pandas_io": "pandas_input_fn",
    "python.estimator.model_fn": "EstimatorSpec ModeKeys",
    "python.estimator.run_config": "RunConfig",
    "python.estimator.training": "train_and_evaluate TrainSpec EvalSpec",
    "python.estimator.util": "fn_args",
    "python.feature_column.feature_column": "input_layer numeric_column _DenseColumn",
    "contrib.keras.python.keras.layers.merge": "Concatenate",
    "contrib.tpu.python.tpu.tpu_function": "get_tpu_context",
    "python.data.ops.dataset_ops": "Dataset",
    "python.data.util.nest": "flatten pack_sequence_as",
    "python.keras._impl.keras.layers.core": "Dense",
    "python.ops.custom_gradient": "custom_gradient",
    "python.ops.distributions.kullback_leibler": "RegisterKL kl_divergence",
    "python.ops.distributions.normal": "Normal",
    "python.ops.resources": "shared_resources initialize_resources",
    "python.ops.template": "Template make_template",
    "python.ops.weights_broadcast_ops": "broadcast_weights",
    "python.tpu.tpu_config": "TPUConfig",
    "python.training.checkpoint_management": "latest_checkpoint",
    "python.training.checkpoint_utils": "list_variables load_variable init_from_checkpoint",
    "python.training.warm_starting_util": "warm_start",
    "python.framework.device_spec": "DeviceSpec",
    "python.framework.smart_cond": "smart_cond smart_constant_value",
    "python.layers.utils": "smart_cond constant_value normalize_tuple conv_output_length",
    "python.ops.control_flow_util": "GraphOrParentsInXlaContext IsLoopEnter",
    "python.util.all_util": "remove_undocumented make_all",
    "python.util.deprecation": "deprecated deprecated_args deprecated_arg_values silence",
    "python.util.function_utils": "fn_args has_kwargs get_func_name",
    "python.util.tf_contextlib": "contextmanager",
    "python.util.tf_decorator": "make_decorator unwrap",
    "python.util.tf_export": "tf_export",
    "python.util.tf_inspect": "getargspec getfullargspec isclass getmro _inspect",
    "python.client.session": "Session InteractiveSession",
    "python.client.timeline": "Timeline",
    "python.framework.constant_op": "constant",
    "python.layers.base": "Layer InputSpec",
    "python.layers.core": "Dense Dropout dense dropout",
    "python.ops.linalg_impl": "matrix_inverse",
    "python.ops.metrics_impl": "mean accuracy",
    "python.summary.summary_iterator": "summary_iterator",
    "python.summary.writer.writer_cache": "FileWriterCache",
    "python.framework.dtypes": "float32 as_dtype DType string float32_ref",
    "python.framework.errors": "OpError InvalidArgumentError OutOfRangeError",
    "python.framework.function": "Defun Declare",
    "python.framework.graph_util": "extract_sub_graph convert_variables_to_constants",
    "python.framework.importer": "import_graph_def",
    "python.framework.ops": (
        "Graph Tensor Operation IndexedSlices GraphKeys get_default_graph device RegisterGradient "
        "control_dependencies NotDifferentiable convert_to_tensor internal_convert_to_tensor "
        "name_scope get_collection add_to_collection add_to_collections colocate_with "
        "reset_default_graph get_gradient_function register_tensor_conversion_function "
        "get_default_session convert_to_tensor_or_indexed_slices strip_name_scope"),
    "python.framework.random_seed": "get_seed set_random_seed",
    "python.framework.tensor_shape": "TensorShape Dimension unknown_shape scalar vector as_shape",
    "python.framework.tensor_util": "make_tensor_proto constant_value MakeNdarray",
    "python.framework.test_util": "TensorFlowTestCase assert_equal_graph_def NHWCToNCHW",
    "python.lib.io.file_io": "FileIO file_exists read_file_to_string",
    "python.lib.io.tf_record": "TFRecordWriter tf_record_iterator TFRecordOptions",
    "python.ops.array_ops": "placeholder zeros concat reshape identity strided_slice",
    "python.ops.control_flow_ops": (
        "cond while_loop case group tuple with_dependencies switch merge CondContext "
        "WhileContext"),
    "python.ops.data_flow_ops": "FIFOQueue QueueBase Barrier dynamic_stitch TensorArray",
    "python.ops.embedding_ops": "embedding_lookup embedding_lookup_sparse",
    "python.ops.gen_array_ops": "_concat_v2 gather strided_slice",
    "python.ops.gen_control_flow_ops": "_switch _merge no_op",
    "python.ops.gen_math_ops": "mat_mul _mat_mul batch_mat_mul _range",
    "python.ops.gen_nn_ops": "conv2d_backprop_input _relu_grad lrn _top_kv2",
    "python.ops.gradient_checker": "compute_gradient compute_gradient_error",
    "python.ops.gradients_impl": "gradients hessians AggregationMethod",
    "python.ops.init_ops": "Initializer Zeros RandomUniform zeros_initializer",
    "python.ops.math_ops": "matmul add reduce_sum cast range",
    "python.ops.nn_ops": "conv2d bias_add relu softmax",
    "python.ops.resource_variable_ops": "var_handle_op read_variable_op assign_variable_op",
    "python.ops.rnn": "dynamic_rnn static_rnn",
    "python.ops.rnn_cell": "BasicLSTMCell LSTMStateTuple RNNCell",
    "python.ops.state_ops": "variable_op variable_op_v2 assign scatter_add",
    "python.ops.variable_scope": "get_variable variable_scope VariableScope",
    "python.ops.variables": "Variable PartitionedVariable global_variables_initializer",
    "python.platform.app": "run flags",
    "python.platform.flags": "FLAGS DEFINE_string",
    "python.platform.googletest": "TestCase main GetTempDir",
    "python.platform.test": "TestCase main get_temp_dir mock",
    "python.platform.tf_logging": "info warn set_verbosity get_logger",
    "python.training.moving_averages": "ExponentialMovingAverage assign_moving_average",
    "python.training.monitored_session": "MonitoredTrainingSession Scaffold ChiefSessionCreator",
    "python.training.queue_runner_impl": "QueueRunner start_queue_runners",
    "python.training.saver": "Saver BaseSaverBuilder latest_checkpoint import_meta_graph",
    "python.training.server_lib": "Server ClusterSpec",
    "python.training.training_util": "global_step get_global_step",
    "python.util.compat": "as_bytes as_str as_text as_str_any bytes_or_text_types",
    "python.util.nest": "flatten map_structure pack_sequence_as is_sequence",
    "core.example.example_pb2": "Example SequenceExample",
    "core.example.feature_pb2": "Feature Int64List",
    "core.framework.graph_pb2": "GraphDef",
    "core.framework.summary_pb2": "Summary HistogramProto",
    "core.framework.types_pb2": "DT_FLOAT",
    "core.protobuf.config_pb2": "ConfigProto RunOptions RunMetadata",
    "core.protobuf.meta_graph_pb2": "MetaGraphDef",
    "core.protobuf.queue_runner_pb2": "QueueRunnerDef",
    "core.protobuf.saver_pb2": "SaverDef",
    "core.protobuf.tensorflow_server_pb2": "ServerDef ClusterDef",
    "core.util.event_pb2": "Event",
}


@pytest.mark.parametrize("path", sorted(USED))
def test_programs_find_what_they_import(path: str) -> None:
    module = importlib.import_module(f"hpcflow.{path}")
    missing = [name for name in USED[path].split() if not hasattr(module, name)]
    assert not missing


def test_every_entry_of_the_table_exists() -> None:
    for path, entry in MODULES.items():
        module = importlib.import_module(path)
        assert set(entry.names) <= set(dir(module))
        for name in entry.names:
            getattr(module, name)


def test_modules_show_the_same_objects() -> None:
    from hpcflow.python.client import session
    from hpcflow.python.framework import errors, ops
    from hpcflow.python.ops import array_ops

    assert session.Session is hf.Session
    assert ops.Graph is hf.Graph
    assert array_ops.reshape is hf.reshape
    assert errors.NotFoundError is hf.errors.NotFoundError
    assert hf.python.ops.math_ops.matmul is hf.matmul
    assert hf.core.framework.graph_pb2.GraphDef is hf.GraphDef


def test_unknown_names_and_modules() -> None:
    with pytest.raises(ImportError):
        importlib.import_module("hpcflow.python.ops.no_such_ops")
    with pytest.raises(ImportError):
        from hpcflow.python.ops.array_ops import no_such_function  # noqa: F401
    with pytest.raises(AttributeError, match=r"module 'hpcflow.python.ops' has no attribute 'x'"):
        hf.python.ops.x  # noqa: B018


@pytest.mark.parametrize(("op_type", "name"), [
    ("MatMul", "mat_mul"), ("Conv2DBackpropInput", "conv2d_backprop_input"), ("LRN", "lrn"),
    ("FFT2D", "fft2d"), ("TopKV2", "top_kv2"), ("QueueEnqueueV2", "queue_enqueue_v2"),
    ("L2Loss", "l2_loss"), ("BiasAddV1", "bias_add_v1"), ("FIFOQueueV2", "fifo_queue_v2"),
    ("_Send", "_send"),
])  # fmt: skip
def test_names_of_generated_functions(op_type: str, name: str) -> None:
    assert aliases.function_name(op_type) == name


def test_generated_functions_take_arguments_by_position() -> None:
    from hpcflow.python.ops import gen_array_ops, gen_math_ops

    with hf.Graph().as_default(), hf.Session() as session:
        product = gen_math_ops._mat_mul([[1.0, 2.0]], [[3.0], [4.0]], name="product")
        joined = gen_array_ops._concat_v2([[1], [2]], 0)
        assert product.op.name == "product"
        np.testing.assert_array_equal(session.run(product), [[11.0]])
        np.testing.assert_array_equal(session.run(joined), [1, 2])


def test_a_star_import_takes_public_names() -> None:
    names: dict = {}
    exec("from hpcflow.python.ops.gen_math_ops import *", names)
    assert "mat_mul" in names and "_mat_mul" not in names


def test_import_hpcflow_does_not_make_the_modules() -> None:
    program = ("import sys, hpcflow; "
               "assert not any(m.startswith(('hpcflow.python', 'hpcflow.core')) "
               "and not m.startswith('hpcflow.python_io') for m in sys.modules); "
               "import hpcflow.python.framework.ops as ops; ops.Graph()")
    subprocess.run([sys.executable, "-c", program], check=True, timeout=patience(),
                   cwd=Path(hf.__file__).parents[1])


def test_texts_and_bytes() -> None:
    assert hf.compat.as_bytes("é") == b"\xc3\xa9" and hf.compat.as_bytes(b"x") == b"x"
    assert hf.compat.as_text(b"\xc3\xa9") == "é" and hf.compat.as_str("x") == "x"
    assert hf.compat.as_str_any(b"7") == "7" and hf.compat.as_str_any(7) == "7"
    for function in (hf.compat.as_bytes, hf.compat.as_text):
        with pytest.raises(TypeError, match="Expected binary or unicode string, got 7"):
            function(7)


def test_files_beside_the_program() -> None:
    here = Path(__file__).resolve()
    assert hf.resource_loader.get_data_files_path() == str(here.parent)
    assert hf.resource_loader.get_path_to_datafile(here.name) == str(here)
    assert hf.resource_loader.load_resource(here.name) == here.read_bytes()


def test_file_io(tmp_path: Path) -> None:
    from hpcflow.python.lib.io import file_io

    name = str(tmp_path / "a" / "text")
    file_io.recursive_create_dir(str(tmp_path / "a"))
    file_io.write_string_to_file(name, "one")
    file_io.atomic_write_string_to_file(name, "two")
    assert file_io.read_file_to_string(name) == "two"
    assert file_io.read_file_to_string(name, binary_mode=True) == b"two"
    assert file_io.list_directory(str(tmp_path / "a")) == ["text"]


def test_devices_of_this_process() -> None:
    from hpcflow.python.client import device_lib

    cpu = device_lib.list_local_devices()[0]
    assert (cpu.name, cpu.device_type) == ("/device:CPU:0", "CPU")
    assert cpu.memory_limit > 0


def test_scopes_of_names() -> None:
    from hpcflow.python.framework import ops

    assert ops.strip_name_scope("^a/b", "a") == "^b"
    assert ops.strip_name_scope("loc:@a/b", "a/") == "loc:@b"
    assert ops.strip_name_scope("ab/c", "a") == "ab/c"
    assert ops.strip_name_scope("a///b", "a") == "b"
    assert ops.prepend_name_scope("^b", "a") == "^a/b"
    assert ops.prepend_name_scope("b", None) == "b"


def test_gradient_functions() -> None:
    from hpcflow.python.framework import ops

    with hf.Graph().as_default() as graph:
        assert callable(ops.get_gradient_function(hf.exp(1.0).op))
        assert ops.get_gradient_function(hf.ones_like([1]).op) is None
        with graph.gradient_override_map({"Exp": "NoSuchGradient"}):
            other = hf.exp(1.0).op
        with pytest.raises(LookupError):
            ops.get_gradient_function(other)


def test_nest() -> None:
    from hpcflow.python.util import nest

    tree = {"b": [1, (2, 3)], "a": 4}
    assert nest.flatten(tree) == [4, 1, 2, 3]
    assert nest.pack_sequence_as(tree, [0, 1, 2, 3]) == {"a": 0, "b": [1, (2, 3)]}
    assert nest.map_structure(lambda x, y: x + y, tree, tree) == {"b": [2, (4, 6)], "a": 8}
    assert nest.flatten_dict_items({("a", "b"): (1, 2), "c": (3,)}) == {"a": 1, "b": 2, "c": (3,)}
    assert nest.flatten_up_to([0, [0, 0]], [(1, 2), [3, (4,)]]) == [(1, 2), 3, (4,)]
    assert nest.map_structure_up_to([0, 0], len, [(1, 2), (3,)]) == [2, 1]
    assert not nest.is_sequence("text") and not nest.is_sequence(np.zeros(2))
    nest.assert_same_structure([1, (2,)], [(1), [2]], check_types=False)
    for error, first, second in ((TypeError, [1], (1,)), (ValueError, [1], [1, 2]),
                                 (ValueError, [1], [[1]])):
        with pytest.raises(error):
            nest.assert_same_structure(first, second)
    with pytest.raises(TypeError, match="input must also be a sequence"):
        nest.flatten_up_to([0, [0]], [1, 2])
    with pytest.raises(ValueError, match="length 3, while shallow structure has length 2"):
        nest.assert_shallow_structure([0, 0], [1, 2, 3])
    with pytest.raises(TypeError, match="func must be callable"):
        nest.map_structure(3, [1])


def test_folders_of_contrib():
    from hpcflow.contrib import framework, layers, rnn
    from hpcflow.contrib.framework.python.ops import add_arg_scope
    from hpcflow.contrib.layers.python.layers import initializers, utils
    from hpcflow.contrib.rnn.python.ops.core_rnn_cell import LSTMStateTuple

    assert add_arg_scope is framework.add_arg_scope
    assert initializers.xavier_initializer is layers.xavier_initializer
    assert LSTMStateTuple is rnn.LSTMStateTuple
    assert callable(utils.convert_collection_to_dict)


_PATH = "hpcflow.contrib.framework.python.ops.arg_scope"


def test_a_function_with_the_name_of_its_file():
    importlib.import_module(_PATH)
    from hpcflow.contrib.framework.python.ops import arg_scope

    assert callable(arg_scope) and arg_scope is sys.modules[_PATH].arg_scope


def test_files_of_contrib_have_what_is_in_other_files_here():
    from hpcflow.contrib import framework
    from hpcflow.contrib.framework.python.ops import variables
    from hpcflow.contrib.layers.python.layers import utils

    assert variables.get_or_create_global_step is framework.get_or_create_global_step
    assert utils.last_dimension(hf.TensorShape([2, 3])) == 3


def test_versions_that_programs_compare():
    assert hf.__version__ == hf.VERSION
    assert (1, 0) <= tuple(int(n) for n in hf.__version__.split(".")[:2]) < (2, 0)


def test_late_modules_are_paths_of_imports():
    import hpcflow.math
    from hpcflow.io.gfile import GFile
    from hpcflow.linalg import det

    assert hpcflow.math is hf.math
    assert GFile is hf.gfile.GFile
    assert det is hf.matrix_determinant
