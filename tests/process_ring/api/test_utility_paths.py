"""What packages for 1.x take from ``python.util``, ``python.layers.utils`` and their neighbours."""

import functools
import logging

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import eager
from hpcflow.contrib.framework import deprecated, smart_cond
from hpcflow.python.framework.smart_cond import smart_constant_value
from hpcflow.python.layers import utils
from hpcflow.python.ops import array_ops
from hpcflow.python.util import deprecation, function_utils, tf_decorator, tf_export, tf_inspect


def test_a_condition_that_is_known_makes_no_operation():
    with hf.Graph().as_default() as graph:
        assert smart_cond(True, lambda: 1, lambda: 2) == 1
        assert utils.smart_cond(0, fn1=lambda: 1, fn2=lambda: 2) == 2
        assert graph.get_operations() == []
        assert smart_cond(hf.constant(True), true_fn=lambda: 1, false_fn=lambda: 2) == 1
        placeholder = hf.placeholder(hf.bool, [])
        chosen = smart_cond(placeholder, lambda: hf.constant(1), lambda: hf.constant(2))
        with hf.Session() as session:
            assert session.run(chosen, {placeholder: False}) == 2
        assert smart_constant_value(placeholder) is None
        with pytest.raises(TypeError, match="`pred` must be"):
            smart_cond("yes", lambda: 1, lambda: 2)
        with pytest.raises(TypeError, match="`false_fn` must be callable"):
            smart_cond(True, lambda: 1)


def test_helpers_of_layers():
    assert utils.convert_data_format("channels_first", 4) == "NCHW"
    assert utils.convert_data_format("channels_last", 5) == "NDHWC"
    assert utils.normalize_tuple(3, 2, "kernel_size") == (3, 3)
    assert utils.normalize_data_format("Channels_Last") == "channels_last"
    assert utils.normalize_padding("SAME") == "same"
    with pytest.raises(ValueError, match="padding"):
        utils.normalize_padding("full")
    with hf.Graph().as_default():
        for padding in ("same", "valid"):
            out = hf.layers.conv1d(hf.zeros([1, 11, 2]), 3, 3, strides=2, padding=padding)
            assert utils.conv_output_length(11, 3, padding, 2) == out.shape[1].value
            out = hf.layers.conv2d_transpose(hf.zeros([1, 5, 5, 2]), 3, 3, 2, padding)
            assert utils.deconv_output_length(5, 3, padding, 2) == out.shape[1].value
    assert utils.conv_output_length(None, 3, "same", 2) is None
    assert utils.conv_output_length(11, 3, "valid", 1, dilation=2) == 7
    assert utils.conv_input_length(5, 3, "valid", 2) == 11


def test_what_functions_are_called_with():
    def function(a, b, c=3, *rest, d=4, **others):
        pass

    class Model:
        def __call__(self, features, labels):
            pass

    assert tf_inspect.getargspec(function) == (["a", "b", "c"], "rest", "others", (3,))
    assert tf_inspect.getfullargspec(function).kwonlyargs == ["d"]
    assert function_utils.fn_args(function) == ("a", "b", "c", "d")
    assert function_utils.fn_args(Model()) == ("features", "labels")
    assert function_utils.fn_args(functools.partial(function, 1, c=2)) == ("b", "d")
    assert function_utils.has_kwargs(function) and not function_utils.has_kwargs(Model())
    assert tf_inspect.getargspec(functools.partial(function, b=1)) == (
        ["a", "b", "c"], "rest", "others", (1, 3))
    assert tf_inspect.getargspec(Model()).args == ["self", "features", "labels"]
    with pytest.raises(ValueError, match="do not have default value"):
        tf_inspect.getargspec(functools.partial(function, a=1))
    with pytest.raises(TypeError, match="Unsupported callable"):
        tf_inspect.getargspec(3)
    assert "partial" in function_utils.get_func_name(functools.partial(function))
    assert tf_inspect.isclass(Model) and tf_inspect._inspect.stack


def test_decorators_say_what_they_decorate():
    def function(a, b=2):
        """Documentation."""
        return a + b

    def instead(*args, **kwargs):
        return -function(*args, **kwargs)

    decorated = tf_decorator.make_decorator(function, instead, "negative")
    assert decorated(1) == -3 and decorated.__doc__ == "Documentation."
    assert tf_inspect.getargspec(decorated).args == ["a", "b"]
    [decorator], inner = tf_decorator.unwrap(decorated)
    assert (decorator.decorator_name, inner) == ("negative", function)
    assert isinstance(decorator, tf_decorator.TFDecorator) and tf_inspect.isfunction(decorator)
    spec = tf_inspect.ArgSpec(["c", "d"], None, None, (5,))
    other = tf_decorator.TFDecorator("other", decorated, "Others.", spec)
    assert tf_inspect.getargspec(other) == spec and other.__doc__ == "Others."
    assert tf_inspect.getcallargs(other, 1) == {"c": 1, "d": 5} and other(1) == -3
    assert tf_decorator.rewrap(decorated, function, len) is decorated
    assert tf_decorator.unwrap(other)[1] is len
    assert tf_export.tf_export("nn.function", v1=["nn.function"])(function) is function


def test_deprecated_functions_say_so_once(caplog):
    @deprecated("2018-10-01", "Use another.")
    def function(x):
        """Return the double."""
        return 2 * x

    @deprecation.deprecated_args(None, "Use axis.", "dim", ("squeeze", False))
    def reduce(axis=None, dim=None, squeeze=False):
        return axis or dim

    @deprecation.deprecated_arg_values(None, "Give a number.", axis=None)
    def total(axis=None):
        return axis

    @deprecated(None, "Use another.")
    class Class:
        def __init__(self, x):
            self.x = x

    with caplog.at_level(logging.WARNING, "hpcflow"):
        assert function(2) == function(1) + 2 == 4
        assert len(caplog.records) == 1
        assert "is deprecated and will be removed after 2018-10-01" in caplog.text
        assert f"From {__file__}:" in caplog.text
        assert reduce(axis=1, squeeze=False) == 1
        assert len(caplog.records) == 1
        assert reduce(dim=2) == 2 and "with dim" in caplog.text
        with deprecation.silence():
            assert total(axis=None) is None and len(caplog.records) == 2
        total(axis=None)
        assert "with axis=None" in caplog.text and Class(3).x == 3 and "Class" in caplog.text
    assert function.__doc__.startswith(
        "Return the double. (deprecated)\n\nWarning: THIS FUNCTION IS DEPRECATED. It will be "
        "removed after 2018-10-01.\nInstructions for updating:\nUse another.")
    assert reduce.__doc__.startswith("DEPRECATED FUNCTION ARGUMENTS\n\nWarning: SOME ARGUMENTS ARE")
    assert deprecation.deprecated_argument_lookup("axis", None, "dim", 1) == 1
    with pytest.raises(ValueError, match="Cannot specify both 'dim' and 'axis'"):
        deprecation.deprecated_argument_lookup("axis", 1, "dim", 1)
    with pytest.raises(ValueError, match="instructions"):
        deprecated(None, "")
    with pytest.raises(ValueError, match="YYYY-MM-DD"):
        deprecated("07-04-2016", "Use another.")
    with pytest.raises(ValueError, match=r"not present.*\['missing'\]"):
        deprecation.deprecated_args(None, "Use another.", "missing")(function)
    with pytest.raises(ValueError, match="is not a function"):
        deprecated(None, "Use another.")(property(function))


def test_there_are_graphs_only():
    from hpcflow.python.eager import context

    assert context.in_graph_mode() and not eager.in_eager_mode()
    assert context.context().in_graph_mode() and not context.context().executing_eagerly()
    with context.graph_mode():
        assert eager.defun(len)([1]) == 1 and eager.defun()(len) is len
    with pytest.raises(hf.errors.UnimplementedError, match="operations are added to graphs"):
        eager.enable_eager_execution()


def test_sizes_by_operations():
    with hf.Graph().as_default():
        x = hf.zeros([2, 3])
        made = [array_ops.shape_internal(x, optimize=False), array_ops.size_internal(x),
                array_ops.rank_internal(x, optimize=False)]
        assert [t.op.type for t in made] == ["Shape", "Const", "Rank"]
        with hf.Session() as session:
            shape, size, rank = session.run(made)
        np.testing.assert_array_equal(shape, [2, 3])
        assert (size, rank) == (6, 2)


def test_filled_tensors_of_one_size(session):
    size = hf.placeholder(hf.int32, [])
    anything = hf.placeholder(hf.int32)
    made = [hf.zeros(size), hf.ones(size, hf.int32), hf.zeros(anything)]
    assert made[0].shape.ndims == 1 and made[2].shape.ndims is None
    zeros, ones, any_zeros = session.run(made, {size: 2, anything: 3})
    np.testing.assert_array_equal(zeros, [0, 0])
    np.testing.assert_array_equal(ones, [1, 1])
    assert any_zeros.shape == (3,)
    assert session.run(made[2], {anything: [2, 3]}).shape == (2, 3)
    assert hf.zeros(hf.constant(3)).shape == [3]


def test_what_counts_as_a_tensor():
    from hpcflow.python.framework import ops

    class Mine:
        name = property(lambda self: "mine")
        dtype = property(lambda self: hf.float32)

    class Derived(ops._TensorLike):
        pass

    with hf.Graph().as_default():
        dense, variable = hf.constant(1.0), hf.Variable(1.0)
        sparse = hf.SparseTensor([[0]], [1.0], [2])
    assert all(isinstance(x, ops._TensorLike) for x in (dense, sparse, Derived()))
    assert not isinstance(3.0, ops._TensorLike)
    assert ops.is_dense_tensor_like(dense) and ops.is_dense_tensor_like(variable)
    assert not ops.is_dense_tensor_like(sparse) and not ops.is_dense_tensor_like(Mine())
    ops.register_dense_tensor_like_type(Mine)
    assert ops.is_dense_tensor_like(Mine())
    with pytest.raises(TypeError, match="`dtype`"):
        ops.register_dense_tensor_like_type(type("Named", (), {"name": Mine.name}))
    assert ops.uid() < ops.uid()


def test_programs_ask_which_device_an_operation_would_get():
    class BySpec:
        device = None

        def _set_device(self, device):
            self.device = device

    class ByString(BySpec):
        def _set_device_from_string(self, device):
            self.device = device

    with hf.Graph().as_default() as graph:
        asked = BySpec()
        graph._apply_device_functions(asked)
        assert asked.device is None
        with hf.device("/job:worker"), hf.device("/cpu:0"):
            graph._apply_device_functions(asked)
            assert asked.device.device_type == "CPU" and asked.device.job == "worker"
            asked = ByString()
            graph._apply_device_functions(asked)
            assert asked.device == "/job:worker/device:CPU:0"


def test_devices_of_a_session(session):
    device = session.list_devices()[0]
    assert device.device_type == "CPU" and device.name.endswith("device:CPU:0")
    assert device.memory_limit_bytes == 0


def test_helpers_of_cells():
    from hpcflow.python.ops import rnn, rnn_cell_impl

    with hf.Graph().as_default(), hf.Session() as session:
        a, b = hf.ones([2, 3]), hf.ones([2, 1])
        with hf.variable_scope("cell", initializer=hf.ones_initializer()):
            made = rnn_cell_impl._linear([a, b], 4, True, hf.constant_initializer(2.0))
            again = rnn_cell_impl._Linear
            with hf.variable_scope("other"):
                layer = again([a, b], 4, True)
                twice = [layer([a, b]), layer([2 * a, b])]
        names = [v.op.name for v in hf.global_variables()]
        assert names == ["cell/kernel", "cell/bias", "cell/other/kernel", "cell/other/bias"]
        session.run(hf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(made), np.full([2, 4], 6.0))
        first, second = session.run(twice)
        np.testing.assert_array_equal(second - first, np.full([2, 4], 3.0))
        zeros = rnn_cell_impl._zero_state_tensors((2, 3), 4, hf.float32)
        assert [z.shape.as_list() for z in zeros] == [[4, 2], [4, 3]]
        assert rnn_cell_impl._concat(2, [3, 4], static=True) == [2, 3, 4]
        size = hf.placeholder(hf.int32, [])
        whole = rnn_cell_impl._concat(size, 3)
        np.testing.assert_array_equal(session.run(whole, {size: 5}), [5, 3])
        np.testing.assert_array_equal(session.run(rnn_cell_impl._concat([2], 3)), [2, 3])
        with pytest.raises(ValueError, match="fully defined"):
            rnn_cell_impl._concat(None, 3)
        assert rnn._transpose_batch_time(hf.zeros([2, 3, 4])).shape == [3, 2, 4]
        unknown = hf.placeholder(hf.float32)
        moved = session.run(rnn._transpose_batch_time(unknown), {unknown: np.zeros([2, 3, 4])})
        assert moved.shape == (3, 2, 4)
    assert rnn_cell_impl._like_rnncell(hf.nn.rnn_cell.GRUCell(2))
    with pytest.raises(TypeError, match="not an RNNCell"):
        rnn_cell_impl.assert_like_rnncell("cell", len)
    with pytest.raises(ValueError, match="must be specified"):
        rnn_cell_impl._linear([], 2, True)


@pytest.mark.parametrize("module", ["hpcflow", "hpcflow.compat.v1"])
def test_all_names_can_be_imported_at_once(module):
    names = {}
    exec(f"from {module} import *", names)
    assert {"train", "nn", "estimator", "ConfigProto", "math", "Session", "mul",
            "constant"} <= set(names)
    assert "Any" not in names and names["train"] is hf.train
    assert {"train", "ConfigProto", "broadcast_to"} <= set(dir(hf))


def test_later_arguments_of_draws_and_maps(session):
    draws = hf.random.categorical(hf.constant([[0.0, 100.0]]), 3, hf.int32)
    assert draws.dtype is hf.int32
    assert hf.random.categorical(hf.zeros([1, 2]), 3).dtype is hf.int64
    halves = hf.map_fn(lambda x: hf.cast(x, hf.float32) / 2, hf.constant([1, 2]),
                       fn_output_signature=hf.float32)
    np.testing.assert_array_equal(session.run([draws[0] + 0, halves])[1], [0.5, 1])


def test_variables_and_resources_by_their_paths(session):
    from hpcflow.python.ops import resources, variable_scope

    made = variable_scope.variable(initial_value=2.0, trainable=False)
    assert hf.trainable_variables() == [] and resources.shared_resources() == []
    session.run([made.initializer, resources.initialize_resources([])])
    assert session.run(made) == 2


def test_helpers_that_programs_take_from_inner_modules():
    from hpcflow.contrib.rnn.python.ops import core_rnn_cell
    from hpcflow.python.keras.utils.generic_utils import to_snake_case
    from hpcflow.python.ops import nn_grad

    assert to_snake_case("MaxPooling2D") == "max_pooling2d"
    with hf.Graph().as_default(), hf.Session() as session:
        rows = nn_grad._BroadcastMul(hf.constant([1.0, 2.0]), hf.ones([2, 2]))
        assert session.run(rows).tolist() == [[1.0, 1.0], [2.0, 2.0]]
        assert core_rnn_cell._linear([hf.ones([2, 3])], 4, True).shape.as_list() == [2, 4]
