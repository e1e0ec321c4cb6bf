"""Variable: initialized, read, changed and described, in a session."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def session(graph):
    with hf.Session() as session:
        yield session


def initialized(session):
    session.run(hf.global_variables_initializer())


# ---------------------------------------------------------------- making and reading


@pytest.mark.parametrize("value, dtype", [
    (3, "int32"), (2.5, "float32"), ([[1.0, 2.0]], "float32"), (np.zeros((0, 3)), "float64"),
    (True, "bool"), (np.arange(6, dtype=np.int8).reshape(2, 3), "int8"), (1 + 2j, "complex128"),
    (np.float16(3), "float16"), ("text", "string"), (["a", "bc"], "string"),
])
def test_initial_value(session, value, dtype):
    v = hf.Variable(value)
    assert v.dtype.base_dtype is hf.as_dtype(dtype) and v.dtype._is_ref_dtype
    initialized(session)
    expected = np.asarray(value)
    if dtype == "string":
        expected = np.char.encode(expected).astype(object)
    np.testing.assert_array_equal(session.run(v), expected)
    np.testing.assert_array_equal(session.run(v.value()), expected)
    np.testing.assert_array_equal(v.eval(session), expected)
    assert np.asarray(session.run(v)).shape == np.asarray(value).shape


def test_initial_value_forms(session):
    a = hf.Variable(lambda: hf.zeros([2]), dtype=hf.float32, name="a")
    b = hf.Variable(hf.constant([1.0, 2.0]), dtype=hf.float32)
    c = hf.Variable(a.initialized_value() + b.initialized_value())
    d = hf.Variable(7, dtype=hf.int64)
    session.run(hf.group(a.initializer, b.initializer))
    session.run([c.initializer, d.initializer])
    np.testing.assert_array_equal(session.run(c), [1, 2])
    assert session.run(d).dtype == np.int64


def test_initial_values_of_other_variables(session):
    a = hf.Variable(hf.random_normal([3]), name="a")
    b = hf.Variable(2 * a, name="b")
    c = hf.get_variable("c", initializer=hf.reduce_sum(a * b))
    d = hf.Variable(hf.cond(c > -1, lambda: b + 1.0, lambda: a), name="d")
    session.run(d.initializer)
    with pytest.raises(hf.errors.FailedPreconditionError):
        session.run(a)
    initialized(session)
    for _ in range(2):
        x, y, z, u = session.run([a, b, c, d])
        np.testing.assert_allclose(y, 2 * x)
        np.testing.assert_allclose(z, (2 * x * x).sum(), rtol=1e-6)
        np.testing.assert_allclose(u, y + 1)
        # Values that are there are taken, and kept.
        session.run(a.assign([1.0, 2.0, 3.0]))
        session.run(b.initializer)
        session.run(c.initializer)
        session.run(d.initializer)
    np.testing.assert_array_equal(session.run(a), [1, 2, 3])


def test_the_operations_of_an_initial_value_that_depends_on_a_variable():
    with hf.Graph().as_default() as graph:
        a = hf.Variable([1.0], name="a")
        with hf.name_scope("deep"):
            value = hf.exp(a * 2.0, name="value")
        b = hf.Variable(value, name="b")
        c = hf.Variable(hf.exp(hf.ones([2])), name="c")
        assert b.initial_value is value and b.initializer.inputs[1].name == "deep/value_b:0"
        assert b.shape == [1] and c.initializer.inputs[1] is c.initial_value
        hf.Variable(a.assign([5.0]), name="d")
        count = len(graph.get_operations())
        hf.Variable(a.initialized_value(), name="e")
        made = {op.name for op in graph.get_operations()[count:]}
    assert not {"a/read_e", "a/cond/read_e"} & made


def test_a_value_is_kept_by_what_takes_it_if_initialized(session):
    a = hf.Variable(1.0)
    b = hf.Variable(a.initialized_value() + 1)
    initialized(session)
    session.run(a.assign(7.0))
    session.run(b.initializer)
    assert session.run([a, b]) == [7, 8]


def test_bad_definitions():
    with pytest.raises(ValueError, match="initial_value"):
        hf.Variable()
    with pytest.raises(ValueError, match="must have a shape specified"):
        hf.Variable(hf.placeholder(hf.float32, [None]))
    with pytest.raises(ValueError, match="collections"):
        hf.Variable(1, collections="variables")
    with pytest.raises(ValueError, match=r"expected \(3,\)"):
        hf.Variable([1.0, 2.0], expected_shape=[3])


def test_uninitialized(session):
    v = hf.Variable([1.0], name="weights")
    for fetch in (v, v.value(), v + 1.0, v.assign_add([1.0])):
        with pytest.raises(hf.errors.FailedPreconditionError, match="uninitialized value weights"):
            session.run(fetch)
    assert not session.run(hf.is_variable_initialized(v))
    initialized(session)
    assert session.run(hf.is_variable_initialized(v))


def test_reports(session):
    v, w = hf.Variable(1.0, name="v"), hf.Variable(2.0, name="w")
    local = hf.Variable(3.0, name="local", collections=[hf.GraphKeys.LOCAL_VARIABLES],
                        trainable=False)
    report = hf.report_uninitialized_variables()
    check = hf.assert_variables_initialized()
    assert check.graph.as_graph_def().node[-1].attr["value"].tensor.int_val[:] == [3]
    np.testing.assert_array_equal(session.run(report), [b"v", b"w", b"local"])
    with pytest.raises(hf.errors.FailedPreconditionError):
        session.run(check)
    session.run([v.initializer, local.initializer])
    np.testing.assert_array_equal(session.run(report), [b"w"])
    np.testing.assert_array_equal(session.run(hf.report_uninitialized_variables([v])), [])
    session.run(w.initializer)
    assert session.run(report).shape == (0,)
    session.run(check)
    session.run(check.op)


def test_reports_without_variables(session):
    assert session.run(hf.report_uninitialized_variables()).shape == (0,)
    assert hf.assert_variables_initialized() is None
    session.run(hf.global_variables_initializer())


def test_lists(graph):
    v = hf.Variable(1.0)
    w = hf.Variable(1.0, trainable=False)
    x = hf.Variable(1.0, collections=[hf.GraphKeys.LOCAL_VARIABLES, hf.GraphKeys.MODEL_VARIABLES],
                    trainable=False)
    assert hf.global_variables() == [v, w] == hf.all_variables()
    assert hf.trainable_variables() == [v]
    assert hf.local_variables() == [x] == hf.model_variables()
    assert hf.moving_average_variables() == []


def test_names(graph):
    with hf.name_scope("scope"):
        v = hf.Variable(1.0, name="v")
        hf.Variable(1.0)
    hf.Variable(lambda: hf.constant(1.0), name="f", dtype=hf.float32)
    names = [op.name for op in graph.get_operations()]
    assert names == ["scope/v/initial_value", "scope/v", "scope/v/Assign", "scope/v/read",
                     "scope/Variable/initial_value", "scope/Variable", "scope/Variable/Assign",
                     "scope/Variable/read", "f/Initializer/Const", "f", "f/Assign", "f/read"]
    assert v.name == "scope/v:0" and v.op.type == "VariableV2"
    assert graph.get_operation_by_name("f/Initializer/Const").colocation_groups() == [b"loc:@f"]
    assert v.value().op.colocation_groups() == [b"loc:@scope/v"]


def test_devices(graph):
    with hf.device("/job:ps/task:1"):
        v = hf.Variable([1.0], caching_device="/job:worker/task:0")
        w = hf.Variable([1.0])
    assert v.device == w.device == w.value().device == "/job:ps/task:1"
    assert v.value().device == "/job:worker/task:0"
    assert v.initializer.device == "/job:ps/task:1"


def test_made_inside_control_dependencies(graph):
    with hf.control_dependencies([hf.constant(1).op]):
        v = hf.Variable(1.0)
    assert not v.op.control_inputs and not v.initializer.control_inputs


# ---------------------------------------------------------------- changing


def test_assignments(session):
    v = hf.Variable([1.0, 2.0])
    initialized(session)
    np.testing.assert_array_equal(session.run(v.assign([3.0, 4.0])), [3, 4])
    np.testing.assert_array_equal(session.run(v.assign_add([1.0, 1.0])), [4, 5])
    np.testing.assert_array_equal(session.run(v.assign_sub([2.0, 2.0])), [2, 3])
    np.testing.assert_array_equal(session.run(hf.assign(v, v * 2.0)), [4, 6])
    np.testing.assert_array_equal(session.run(hf.assign_add(v, v)), [8, 12])
    np.testing.assert_array_equal(session.run(v), [8, 12])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int16",
                                   "uint16", "int32", "int64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_arithmetic_types(session, dtype, shape):
    np_type = hf.as_dtype(dtype).np
    v = hf.Variable(np.full(shape, 5, np_type))
    add, sub = v.assign_add(np.full(shape, 3, np_type)), v.assign_sub(np.full(shape, 2, np_type))
    initialized(session)
    for op, expected in ((add, 8), (sub, 6)):
        got = session.run(op)
        assert got.dtype == np_type and got.shape == shape
        np.testing.assert_array_equal(got, np.full(shape, expected, np_type))


def test_integers_wrap(session):
    v = hf.Variable(np.int8(127))
    initialized(session)
    assert session.run(v.assign_add(1)) == -128


def test_wrong_shapes_and_types(session):
    v = hf.Variable([1.0, 2.0])
    with pytest.raises(ValueError, match=r"\[2\].*\[3\]"):
        v.assign([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"\[2\].*\[\]"):
        v.assign_add(1.0)
    with pytest.raises(TypeError):
        v.assign(hf.constant([1, 2]))
    with pytest.raises(AttributeError, match="only variables change"):
        hf.assign(hf.constant([1.0]), [2.0])
    value = hf.placeholder(hf.float32)
    assign, add = v.assign(value), v.assign_add(value)
    initialized(session)
    for op in (assign, add):
        for bad in (1.0, [1.0], [1.0] * 3, [[1.0, 2.0]]):
            with pytest.raises(hf.errors.InvalidArgumentError, match="shape"):
                session.run(op, {value: bad})
    np.testing.assert_array_equal(session.run(v), [1, 2])


def test_any_shape(session):
    value = hf.placeholder(hf.float32)
    v = hf.Variable(value, validate_shape=False)
    assert v.get_shape().ndims is None
    session.run(v.initializer, {value: [1.0, 2.0]})
    np.testing.assert_array_equal(session.run(v), [1, 2])
    assign = hf.assign(v, value, validate_shape=False)
    np.testing.assert_array_equal(session.run(assign, {value: [[5.0]]}), [[5]])
    np.testing.assert_array_equal(session.run(v * 2.0), [[10]])
    v.set_shape([1, 1])
    assert v.get_shape().as_list() == v.value().get_shape().as_list() == [1, 1]


def test_load_and_eval(session):
    v = hf.Variable([1.0, 2.0])
    initialized(session)
    with session.as_default():
        v.load([5.0, 6.0])
        np.testing.assert_array_equal(v.eval(), [5, 6])
    v.load([7.0, 8.0], session)
    np.testing.assert_array_equal(v.eval(session), [7, 8])


def test_load_without_session():
    with pytest.raises(ValueError, match="session"):
        hf.Variable([1.0]).load([2.0])


def test_fetched_values_are_snapshots(session):
    v = hf.Variable(np.zeros(4, np.float32))
    initialized(session)
    before = session.run(v)
    session.run(v.assign_add(np.ones(4, np.float32)))
    np.testing.assert_array_equal(before, np.zeros(4))
    before += 100
    np.testing.assert_array_equal(session.run(v), np.ones(4))


def test_a_read_before_a_write_keeps_its_value(session):
    v = hf.Variable(np.zeros(4, np.float32))
    read = hf.identity(v)
    with hf.control_dependencies([read]):
        write = v.assign_add(np.ones(4, np.float32))
    with hf.control_dependencies([write]):
        after = v.read_value()
    total = read + after
    initialized(session)
    for step in range(3):
        r, a, t = session.run([read, after, total])
        np.testing.assert_array_equal(r, np.full(4, step))
        np.testing.assert_array_equal(a, np.full(4, step + 1))
        np.testing.assert_array_equal(t, np.full(4, 2 * step + 1))


def test_constants_survive_updates(session):
    """An initial value is a constant of the graph: updates must not reach it."""
    v = hf.Variable(np.zeros(4, np.float32))
    add = v.assign_add(np.ones(4, np.float32))
    for _ in range(2):
        session.run(v.initializer)
        np.testing.assert_array_equal(session.run(add), np.ones(4))


def test_feeding_a_variable(session):
    v = hf.Variable([1.0, 2.0])
    initialized(session)
    doubled = v * 2.0
    np.testing.assert_array_equal(session.run(doubled, {v.value(): [5.0, 5.0]}), [10, 10])
    np.testing.assert_array_equal(session.run(doubled), [2, 4])


def test_counting(session):
    v = hf.Variable(0, dtype=hf.int64)
    count = v.count_up_to(3)
    initialized(session)
    assert [session.run(count) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(hf.errors.OutOfRangeError, match="limit of 3"):
        session.run(count)
    assert session.run(v) == 3
    with pytest.raises(ValueError):
        hf.count_up_to(hf.Variable([1, 2]), 3)


def test_sessions_do_not_share(graph):
    v = hf.Variable(1.0)
    with hf.Session() as one, hf.Session() as two:
        one.run(v.initializer)
        one.run(v.assign(5.0))
        with pytest.raises(hf.errors.FailedPreconditionError):
            two.run(v)
        assert one.run(v) == 5


def test_concurrent_updates_all_count(session):
    v = hf.Variable(np.zeros(1000, np.float32))
    s = hf.Variable(0, dtype=hf.int64)
    update = hf.group(v.assign_add(np.ones(1000, np.float32)), s.assign_add(1))
    initialized(session)
    session.run(update)
    threads = [threading.Thread(target=lambda: [session.run(update) for _ in range(50)])
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(session.run(v), np.full(1000, 201))
    assert session.run(s) == 201


# ---------------------------------------------------------------- operators, protobufs


def test_operators(session):
    v = hf.Variable([4.0, 9.0])
    i = hf.Variable([5, 7])
    initialized(session)
    cases = {
        v + 1.0: [5, 10], 1.0 + v: [5, 10], v - 1.0: [3, 8], 1.0 - v: [-3, -8], v * v: [16, 81],
        v / 2.0: [2, 4.5], 36.0 / v: [9, 4], -v: [-4, -9], abs(-v): [4, 9], v**2.0: [16, 81],
        v > 5.0: [False, True], v <= 4.0: [True, False], i // 2: [2, 3], i % 2: [1, 1],
        v[1]: 9, v[:1]: [4], 2.0**v: [16, 512],
    }
    for fetch, expected in cases.items():
        np.testing.assert_array_equal(session.run(fetch), expected)
    with pytest.raises(TypeError, match="iterable"):
        list(v)


def test_conversion():
    v = hf.Variable([1.0])
    assert hf.convert_to_tensor(v) is v.value()
    with pytest.raises(ValueError, match="float32"):
        hf.convert_to_tensor(v, dtype=hf.int32)
    assert hf.get_default_graph().as_graph_element(v) is v._ref()
    assert v in {v: 1} and v != hf.Variable([1.0])


def test_protobuf(graph):
    with hf.name_scope("a"):
        v = hf.Variable([1.0, 2.0], name="v")
    v._set_save_slice_info(hf.Variable.SaveSliceInfo("whole", [4], [2], [2]))
    proto = v.to_proto()
    assert proto.variable_name == "a/v:0" and proto.snapshot_name == "a/v/read:0"
    w = hf.Variable.from_proto(proto)
    assert w._ref() is v._ref() and w.value() is v.value() and w.initializer is v.initializer
    assert w._get_save_slice_info().spec == "4 2,2"
    assert v.to_proto(export_scope="b") is None
    assert v.to_proto(export_scope="a").variable_name == "v:0"
    definition = graph.as_graph_def()
    with hf.Graph().as_default():
        hf.import_graph_def(definition, name="imported")
        x = hf.Variable.from_proto(proto, import_scope="imported")
        assert x.name == "imported/a/v:0"
        with hf.Session() as session:
            session.run(x.initializer)
            np.testing.assert_array_equal(session.run(x), [1, 2])


def test_shared_names():
    """Two ops with one shared name are one variable; what they declare must agree."""
    ops = hf.raw_ops
    with hf.Session() as session:
        a = ops.VariableV2(shape=[2], dtype=hf.float32, shared_name="s", name="a")
        b = ops.VariableV2(shape=[2], dtype=hf.float32, shared_name="s", name="b")
        session.run(hf.assign(a, [1.0, 2.0]))
        np.testing.assert_array_equal(session.run(b), [1, 2])
        c = ops.VariableV2(shape=[3], dtype=hf.float32, shared_name="s", name="c")
        with pytest.raises(hf.errors.InvalidArgumentError, match="exists with float32"):
            session.run(c)


def test_legacy_variable(session):
    v = hf.raw_ops.Variable(shape=[], dtype=hf.float32)
    assert v.shape.ndims is None
    assign = hf.assign(v, [1.0, 2.0], validate_shape=False)
    np.testing.assert_array_equal(session.run(assign), [1, 2])


def test_temporary_variable(session):
    ops = hf.raw_ops
    t = ops.TemporaryVariable(shape=[2], dtype=hf.float32, var_name="t")
    t = hf.assign(t, [1.0, 2.0])
    t = hf.assign_add(t, [1.0, 1.0])
    final = ops.DestroyTemporaryVariable(t, var_name="t")
    for _ in range(3):
        np.testing.assert_array_equal(session.run(final), [2, 3])


def test_temporary_variables_by_name():
    ops = hf.raw_ops

    def made(name):
        return hf.assign(ops.TemporaryVariable(shape=[2], dtype=hf.float32, var_name=name), [1, 2])

    with hf.Session() as session:
        with pytest.raises(hf.errors.NotFoundError, match="'other'"):
            session.run(ops.DestroyTemporaryVariable(ref=made("one"), var_name="other"))
        with pytest.raises(hf.errors.AlreadyExistsError, match="'twice'"):
            session.run(made("twice") + made("twice"))
