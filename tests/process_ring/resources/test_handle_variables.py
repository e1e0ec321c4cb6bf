"""Variables by resource handle: what ``use_resource=True`` makes, and all that takes variables."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.framework import function
from hpcflow.ops.state.handle_variables import ResourceVariable, UnreadVariable

pytestmark = pytest.mark.usefixtures("graph")
ONES = np.ones((3, 2), np.float32)


@pytest.fixture
def v(graph):
    return hf.get_variable("v", [3, 2], use_resource=True, initializer=hf.ones_initializer())


def test_what_is_made(graph, v):
    assert isinstance(v, ResourceVariable) and isinstance(v, hf.Variable)
    assert [(o.name, o.type) for o in graph.get_operations()[-4:]] == [
        ("v", "VarHandleOp"), ("v/IsInitialized/VarIsInitializedOp", "VarIsInitializedOp"),
        ("v/Assign", "AssignVariableOp"), ("v/Read/ReadVariableOp", "ReadVariableOp")]
    assert v.handle is graph.get_tensor_by_name("v:0") and v.handle.dtype is hf.resource
    assert (v.name, v.op.name, v.dtype, v.shape.as_list()) == ("v:0", "v", hf.float32, [3, 2])
    assert v.value() is not v.value()
    assert not isinstance(hf.Variable(1.0, use_resource=False), ResourceVariable)


def test_who_says_which_kind(graph):
    with hf.variable_scope("a", use_resource=True):
        assert isinstance(hf.Variable(1.0), ResourceVariable)
        assert isinstance(hf.get_variable("x", []), ResourceVariable)
        assert not isinstance(hf.get_variable("y", [], use_resource=False), ResourceVariable)
    assert not isinstance(hf.Variable(1.0), ResourceVariable)
    hf.enable_resource_variables()
    try:
        assert hf.resource_variables_enabled() and isinstance(hf.Variable(1.0), ResourceVariable)
    finally:
        hf.disable_resource_variables()
    assert not isinstance(hf.Variable(1.0), ResourceVariable)


def test_changes_are_read_after_them(form, v, session):
    steps = [(v.assign(hf.zeros([3, 2])), np.zeros((3, 2))),
             (hf.assign(v, hf.fill([3, 2], 7.0)), np.full((3, 2), 7)),
             (hf.scatter_update(v, [0], [[1.0, 2.0]]), [[1, 2], [7, 7], [7, 7]]),
             (v.scatter_nd_update([[0, 0]], [9.0]), [[9, 2], [7, 7], [7, 7]]),
             (v[1].assign([3.0, 4.0]), [[9, 2], [3, 4], [7, 7]]),
             (v.scatter_max(hf.IndexedSlices(hf.constant([[8.0, 1]]), hf.constant([2]))),
              [[9, 2], [3, 4], [8, 7]]),
             (v.assign(2 * ONES).assign_add(ONES), 3 * ONES)]
    only = v.assign_sub(ONES, name="less", read_value=False)
    assert isinstance(only, hf.Operation) and only.type == "AssignSubVariableOp"
    asked = hf.is_variable_initialized(v)
    names = hf.report_uninitialized_variables([v])
    assert not session.run(asked) and session.run(names).tolist() == [b"v"]
    with pytest.raises(hf.errors.FailedPreconditionError, match="uninitialized value v"):
        session.run(v)
    session.run(v.initializer)
    assert session.run(asked)
    for change, wanted in steps:
        assert isinstance(change, UnreadVariable) and change.op.type != "ReadVariableOp"
        np.testing.assert_array_equal(session.run(change), wanted)
    session.run(only)
    v.load(5 * session.run(v), session)
    np.testing.assert_array_equal(v.eval(session), 10 * ONES)


def test_control_dependencies_order_reads(form, graph):
    n = hf.Variable(0, use_resource=True)
    before = n.value()
    with hf.control_dependencies([before]):
        changed = n.assign_add(1)
    with hf.control_dependencies([changed]):
        after = n + 0

    def body(i):
        with hf.control_dependencies([n.assign_add(1)]):
            return i + 1

    loop = hf.while_loop(lambda i: i < 5, body, [0])
    with hf.Session() as session:
        session.run(n.initializer)
        assert session.run([before, after]) == [0, 1]
        session.run(loop)
        assert session.run(n) == 6
        session.run(hf.group(n.assign(3)))
        assert session.run(n.count_up_to(4)) == 3


def test_gradients(form, v):
    w = hf.Variable([1.0, 2.0], use_resource=True)
    pred = hf.placeholder_with_default(True, [])
    loop = hf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * w), [0, hf.ones([2])])[1]
    rows = hf.while_loop(lambda i, x: i < 2,
                         lambda i, x: (i + 1, x + hf.gather(v, [i, 2]) * w), [0, hf.zeros([2, 2])])
    chosen = hf.cond(pred, lambda: w * 3.0, lambda: hf.nn.embedding_lookup(v, 0))
    square = hf.gradients(hf.reduce_sum(v * v), [v, v.handle])
    of_loop, of_rows = hf.gradients(loop, w)[0], hf.gradients(rows[1], [v, w])
    of_cond = hf.gradients(chosen, [w, v])
    nothing = hf.gradients(loop, v, unconnected_gradients="zero")[0]
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        for g in session.run(square):
            np.testing.assert_array_equal(g, 2 * ONES)
        assert session.run(of_loop).tolist() == [3, 12]
        assert session.run(hf.convert_to_tensor(of_rows[0])).tolist() == [[1, 2], [1, 2], [2, 4]]
        assert session.run(of_rows[1]).tolist() == [4, 4]
        by_w, by_v = session.run([of_cond[0], hf.convert_to_tensor(of_cond[1])])
        assert by_w.tolist() == [3, 3] and not by_v.any()
        by_w, by_v = session.run([of_cond[0], hf.convert_to_tensor(of_cond[1])], {pred: False})
        assert not by_w.any() and by_v.tolist() == [[1, 1], [0, 0], [0, 0]]
        assert session.run(nothing).tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("use_resource", [False, True])
def test_gradients_of_conditionals_in_loops(form, use_resource, graph):
    w = hf.get_variable("w", initializer=1.5, use_resource=use_resource)
    product = hf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, hf.cond(
        i > 0, lambda: x * w, lambda: x + 2.0 * w)), [0, 0.5])[1]
    grad = hf.gradients(product, w)[0]
    with hf.Session() as session:
        session.run(w.initializer)
        assert session.run(product) == (0.5 + 3.0) * 1.5 ** 2
        assert session.run(grad) == 6 * 1.5 ** 2 + 2 * 0.5 * 1.5


def optimizers():
    return [
        hf.train.GradientDescentOptimizer(0.1), hf.train.MomentumOptimizer(0.1, 0.9),
        hf.train.AdamOptimizer(0.1), hf.train.AdagradOptimizer(0.1),
        hf.train.RMSPropOptimizer(0.1), hf.train.RMSPropOptimizer(0.1, centered=True, name="c"),
        hf.train.FtrlOptimizer(0.1), hf.train.AdadeltaOptimizer(0.1),
        hf.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.1, name="v2"),
        hf.train.ProximalAdagradOptimizer(0.1), hf.train.ProximalGradientDescentOptimizer(0.1),
        hf.train.AdagradDAOptimizer(0.1, hf.train.get_or_create_global_step())]


@pytest.mark.parametrize("dense", [True, False])
def test_optimizers_agree_with_those_of_references(graph, dense):
    losses, pairs, steps = [], [], []
    for by_handle in (True, False):
        with hf.variable_scope(f"s{by_handle}", use_resource=by_handle):
            v = hf.get_variable("v", initializer=ONES)
            w = hf.get_variable("w", initializer=[1.0, 2.0])
            loss = hf.reduce_sum(hf.nn.embedding_lookup(v, [1, 2, 1]) * w)
            losses.append(loss + (hf.reduce_sum(v * v) if dense else 0.0))
            pairs.append((v, w))
    steps = [[o.minimize(losses[i], var_list=pairs[i]) for o in optimizers()] for i in (0, 1)]
    kinds = {o.type for o in graph.get_operations()}
    assert {"ResourceApplyAdam", "ApplyAdam", "ResourceApplyFtrlV2"} <= kinds
    with hf.Session() as session:
        for one, other in zip(*steps, strict=True):
            session.run(hf.global_variables_initializer())
            for _ in range(2):
                session.run([one, other])
            by_handle, by_reference = session.run(pairs)
            for a, b in zip(by_handle, by_reference, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
            assert not np.array_equal(by_handle[1], [1, 2])


def test_ftrl_shrinks_as_the_reference_does(v, session):
    w = hf.Variable([1.0, 2.0], use_resource=True)
    loss = hf.reduce_sum(v * v) + hf.reduce_sum(hf.nn.embedding_lookup(v, [1, 2, 1]) * w)
    step = hf.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.1).minimize(loss)
    session.run(hf.global_variables_initializer())
    session.run(step)
    session.run(step)
    np.testing.assert_allclose(session.run(v), [[.67054, .67054], [.75085, .77773],
                                                [.72324, .74973]], atol=1e-5)
    np.testing.assert_allclose(session.run(w), [0.7224, 1.60519], atol=1e-5)
    with pytest.raises(ValueError, match="l2_shrinkage_regularization_strength -1 needs to be"):
        hf.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=-1)


def test_optimizers_may_treat_handles_by_themselves(v, session):
    class Sign(hf.train.Optimizer):
        def __init__(self):
            super().__init__(False, "Sign")

        def _resource_apply_dense(self, grad, handle):
            return handle.assign_sub(hf.sign(grad), read_value=False)

        def _resource_apply_sparse(self, grad, handle, indices):
            return handle.scatter_sub(hf.IndexedSlices(grad, indices)).op

    dense = Sign().minimize(hf.reduce_sum(v))
    sparse = Sign().minimize(hf.reduce_sum(hf.gather(v, [1, 1])))
    session.run(v.initializer)
    session.run(dense)
    session.run(sparse)
    assert session.run(v).tolist() == [[0, 0], [-2, -2], [0, 0]]


def test_saved_and_made_again(v, tmp_path):
    step = hf.train.AdamOptimizer(0.1).minimize(hf.reduce_sum(v * v))
    whole = hf.get_variable("p", [4, 2], use_resource=True, initializer=hf.ones_initializer(),
                            partitioner=hf.fixed_size_partitioner(2))
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(step)
        before = session.run(v)
        path = hf.train.Saver().save(session, str(tmp_path / "m"))
        assert all(isinstance(part, ResourceVariable) for part in whole)
        assert session.run(hf.convert_to_tensor(whole)).shape == (4, 2)
    with hf.Graph().as_default(), hf.Session() as session:
        saver = hf.train.import_meta_graph(f"{path}.meta")
        saver.restore(session, path)
        again = hf.trainable_variables()[0]
        assert isinstance(again, ResourceVariable) and again.to_proto().is_resource
        np.testing.assert_array_equal(session.run(again.assign_add(ONES)), before + 1)
    with hf.Graph().as_default(), hf.Session() as session:  # by reference, of the same names
        hf.get_variable("v", [3, 2])
        hf.train.Saver().restore(session, path)
        np.testing.assert_array_equal(session.run("v:0"), before)


def test_functions_read_them(form, v, session):
    @function.Defun(hf.float32)
    def scaled(x):
        return x * hf.reduce_sum(v)

    x = hf.placeholder(hf.float32, [])
    y = scaled(x)
    session.run(v.initializer)
    assert session.run([y, hf.gradients(y, x)[0]], {x: 2.0}) == [12.0, 6.0]


def test_initial_values_of_others(v, session):
    twice = hf.Variable(v * 2, use_resource=True)
    shadow = hf.train.ExponentialMovingAverage(0.5)
    shadow.apply([v])
    session.run(hf.global_variables_initializer())
    np.testing.assert_array_equal(session.run(twice), 2 * ONES)
    np.testing.assert_array_equal(session.run(shadow.average(v)), ONES)


def test_shapes_that_may_change(graph):
    for by_handle in (True, False):
        v = hf.Variable([1.0], shape=hf.TensorShape([None]), use_resource=by_handle)
        longer = hf.assign(v, [1.0, 2.0], validate_shape=False)
        assert v.shape.as_list() == [None]
        with hf.Session() as session:
            session.run(v.initializer)
            assert session.run(longer).tolist() == [1, 2]
            assert session.run(v.value()).tolist() == [1, 2]
    with pytest.raises(ValueError, match="is not compatible with the shape"):
        hf.Variable([1.0], shape=[2])


def test_values_that_do_not_fit(v):
    with pytest.raises(ValueError, match=r"Cannot assign to variable v:0: its shape \(3, 2\)"):
        v.assign([1.0])
    with pytest.raises(ValueError, match="sparse_delta must be IndexedSlices"):
        v.scatter_add(ONES)
    with pytest.raises(ValueError, match=r"shapes \[3,2\] and \[2,2\] are not compatible"):
        hf.scatter_update(v, [0, 1], ONES)
    with pytest.raises(ValueError, match="must be equal rank"):
        hf.scatter_add(v, [0, 1], [1.0, 2.0])
    with pytest.raises(TypeError, match="has no VariableDef"):
        v.assign(ONES).to_proto()


def test_on_parameter_servers(graph):
    workers, servers = hf.test.create_local_cluster(1, 2)
    with hf.device(hf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")):
        v = hf.get_variable("v", [3, 2], use_resource=True, initializer=hf.ones_initializer())
        w = hf.get_variable("w", [2], use_resource=True, initializer=hf.ones_initializer())
        assert (v.device, w.device) == ("/job:ps/task:0", "/job:ps/task:1")
        loss = hf.reduce_sum(hf.gather(v, [1, 1]) * w)
        step = hf.train.AdagradOptimizer(0.5).minimize(loss)
    with hf.Session(workers[0].target) as session:
        session.run(hf.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run(v), [[1, 1], [0.506, 0.506], [1, 1]], atol=1e-3)
        assert session.run(v.assign_add(2 * ONES))[0].tolist() == [3, 3]
    for server in (*workers, *servers):
        server._server.close()


def test_shapes_of_initial_values_may_be_known_in_part(session):
    v = hf.Variable(hf.placeholder_with_default(np.ones(3), (None,)), use_resource=True)
    assert v.shape.as_list() == [None]
    session.run(v.initializer)
    assert session.run(v.assign(np.ones(2))).shape == (2,)


def test_changes_are_made_in_the_graph_of_the_variable():
    with hf.Graph().as_default() as graph:
        v = hf.Variable(1.0, use_resource=True)
    with hf.Graph().as_default():
        assert all(change(2.0).graph is graph for change in (v.assign, v.assign_add, v.assign_sub))


def test_variables_are_not_copied_alone():
    with pytest.raises(NotImplementedError, match="part of a graph"):
        copy.deepcopy(hf.Variable(1.0, use_resource=True))


def test_caching_devices_are_those_alone():
    with hf.device("/job:server/task:1"):
        v = hf.Variable(2.0, caching_device="/job:localhost", use_resource=True)
    with hf.get_default_graph().colocate_with(v.op):
        w = hf.Variable(2.0, caching_device="/job:localhost", use_resource=True)
    for cached in (v.value(), w.value()):
        assert cached.device == "/job:localhost"
        with pytest.raises(ValueError, match="_class"):
            cached.op.get_attr("_class")


@pytest.mark.parametrize("by_handle", [False, True])
def test_definitions_without_an_initial_value(by_handle):
    definition = hf.Variable(3.0, use_resource=by_handle).to_proto()
    definition.ClearField("initial_value_name")
    v = hf.Variable(variable_def=definition)
    assert v.to_proto() == definition and v.initial_value is None
    with pytest.raises(ValueError, match="names no initial value"):
        v.initialized_value()


def test_what_is_known_of_handles_passes_identity_n():
    v = hf.get_variable("v", [20], use_resource=True)
    _, passed = hf.raw_ops.IdentityN([hf.constant(1.0), v.handle])
    assert passed._handle_data == v.handle._handle_data
