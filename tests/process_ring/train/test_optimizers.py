"""Optimizers: slots, names, gradients, steps against plain formulas, dense and sparse."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import optimizers as train

STEPS = 4


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


# ---------------------------------------------------------------- formulas

# Each takes (var, slots, grad, step) with the step counted from 1 and changes slots in place.


def sgd(var, slots, grad, step):
    return var - 0.1 * grad


def momentum(var, slots, grad, step):
    slots["momentum"] = 0.9 * slots["momentum"] + grad
    return var - 0.1 * slots["momentum"]


def nesterov(var, slots, grad, step):
    slots["momentum"] = 0.9 * slots["momentum"] + grad
    return var - 0.1 * (grad + 0.9 * slots["momentum"])


def adagrad(var, slots, grad, step):
    slots["accumulator"] = slots["accumulator"] + grad**2
    return var - 0.1 * grad / np.sqrt(slots["accumulator"])


def adam(var, slots, grad, step):
    slots["m"] = 0.9 * slots["m"] + 0.1 * grad
    slots["v"] = 0.999 * slots["v"] + 0.001 * grad**2
    rate = 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    return var - rate * slots["m"] / (np.sqrt(slots["v"]) + 1e-8)


def rms_prop(var, slots, grad, step):
    slots["rms"] = 0.9 * slots["rms"] + 0.1 * grad**2
    slots["momentum"] = 0.5 * slots["momentum"] + 0.1 * grad / np.sqrt(slots["rms"] + 1e-10)
    return var - slots["momentum"]


def centered_rms_prop(var, slots, grad, step):
    slots["rms"] = 0.9 * slots["rms"] + 0.1 * grad**2
    slots["mg"] = 0.9 * slots["mg"] + 0.1 * grad
    root = np.sqrt(slots["rms"] - slots["mg"] ** 2 + 1e-10)
    slots["momentum"] = 0.5 * slots["momentum"] + 0.1 * grad / root
    return var - slots["momentum"]


def adadelta(var, slots, grad, step):
    slots["accum"] = 0.95 * slots["accum"] + 0.05 * grad**2
    change = grad * np.sqrt(slots["accum_update"] + 1e-8) / np.sqrt(slots["accum"] + 1e-8)
    slots["accum_update"] = 0.95 * slots["accum_update"] + 0.05 * change**2
    return var - 0.1 * change


def shrink(x, threshold):
    return np.sign(x) * np.maximum(abs(x) - threshold, 0)


def ftrl(var, slots, grad, step):
    new = slots["accum"] + grad**2
    slots["linear"] = slots["linear"] + grad - (np.sqrt(new) - np.sqrt(slots["accum"])) / 0.1 * var
    slots["accum"] = new
    return -shrink(slots["linear"], 0.2) / (np.sqrt(new) / 0.1 + 2 * 0.3)


def adagrad_da(var, slots, grad, step):
    slots["gradient_accumulator"] = slots["gradient_accumulator"] + grad
    slots["gradient_squared_accumulator"] = slots["gradient_squared_accumulator"] + grad**2
    root = np.sqrt(slots["gradient_squared_accumulator"])
    total = shrink(slots["gradient_accumulator"], 0.2 * step)
    return -0.1 * total / (0.3 * step * 0.1 + root)


def proximal_sgd(var, slots, grad, step):
    return shrink(var - 0.1 * grad, 0.1 * 0.2) / (1 + 0.1 * 0.3)


def proximal_adagrad(var, slots, grad, step):
    slots["accumulator"] = slots["accumulator"] + grad**2
    rate = 0.1 / np.sqrt(slots["accumulator"])
    return shrink(var - rate * grad, rate * 0.2) / (1 + rate * 0.3)


# name -> (optimizer, formula, initial slots, whether a sparse update touches only its rows)
OPTIMIZERS = {
    "GradientDescent": (lambda: train.GradientDescentOptimizer(0.1), sgd, {}, True),
    "Momentum": (lambda: train.MomentumOptimizer(0.1, 0.9), momentum, {"momentum": 0.0}, True),
    "Nesterov": (lambda: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True), nesterov,
                 {"momentum": 0.0}, True),
    "Adagrad": (lambda: train.AdagradOptimizer(0.1), adagrad, {"accumulator": 0.1}, True),
    "Adam": (lambda: train.AdamOptimizer(0.1), adam, {"m": 0.0, "v": 0.0}, False),
    "RMSProp": (lambda: train.RMSPropOptimizer(0.1, momentum=0.5), rms_prop,
                {"rms": 1.0, "momentum": 0.0}, True),
    "CenteredRMSProp": (lambda: train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
                        centered_rms_prop, {"rms": 1.0, "mg": 0.0, "momentum": 0.0}, True),
    "Adadelta": (lambda: train.AdadeltaOptimizer(0.1), adadelta,
                 {"accum": 0.0, "accum_update": 0.0}, True),
    "Ftrl": (lambda: train.FtrlOptimizer(0.1, l1_regularization_strength=0.2,
                                         l2_regularization_strength=0.3), ftrl,
             {"accum": 0.1, "linear": 0.0}, True),
    "AdagradDA": (lambda: train.AdagradDAOptimizer(
        0.1, train.get_global_step(), l1_regularization_strength=0.2,
        l2_regularization_strength=0.3), adagrad_da,
        {"gradient_accumulator": 0.0, "gradient_squared_accumulator": 0.1}, True),
    "ProximalGradientDescent": (lambda: train.ProximalGradientDescentOptimizer(0.1, 0.2, 0.3),
                                proximal_sgd, {}, True),
    "ProximalAdagrad": (lambda: train.ProximalAdagradOptimizer(
        0.1, l1_regularization_strength=0.2, l2_regularization_strength=0.3), proximal_adagrad,
        {"accumulator": 0.1}, True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dense_steps(name, dtype):
    make, formula, initial, _ = OPTIMIZERS[name]
    rng = np.random.default_rng(7)
    np_type = hf.as_dtype(dtype).np
    value = rng.standard_normal((3, 2)).astype(np_type)
    grads = rng.standard_normal((STEPS, 3, 2)).astype(np_type)
    step = train.create_global_step()
    v, grad = hf.Variable(value), hf.placeholder(dtype, [3, 2])
    optimizer = make()
    update = optimizer.apply_gradients([(grad, v)], global_step=step)
    expected = value.astype(np.float64)
    slots = {k: np.full((3, 2), x) for k, x in initial.items()}
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        for i in range(STEPS):
            session.run(update, {grad: grads[i]})
            expected = formula(expected, slots, grads[i].astype(np.float64), i + 1)
            check(session, optimizer, v, expected, slots)
        assert train.global_step(session, step) == STEPS


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("indices", [[3, 1], [1, 1, 0, 1], [2]])
def test_sparse_steps(name, indices):
    """Rows of duplicate indices are summed, then applied once."""
    make, formula, initial, rows_only = OPTIMIZERS[name]
    rng = np.random.default_rng(8)
    value = rng.standard_normal((4, 2))
    rows = rng.standard_normal((STEPS, len(indices), 2))
    step = train.create_global_step()
    v, values = hf.Variable(value), hf.placeholder(hf.float64, [None, 2])
    optimizer = make()
    slices = hf.IndexedSlices(values, hf.constant(indices), hf.constant([4, 2]))
    update = optimizer.apply_gradients([(slices, v)], global_step=step)
    expected = value
    slots = {k: np.full((4, 2), x) for k, x in initial.items()}
    touched = np.isin(np.arange(4), indices)[:, None]
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        for i in range(STEPS):
            session.run(update, {values: rows[i]})
            dense = np.zeros((4, 2))
            np.add.at(dense, indices, rows[i])
            before = dict(slots)
            new = formula(expected, slots, dense, i + 1)
            if rows_only:
                new = np.where(touched, new, expected)
                slots = {k: np.where(touched, slots[k], before[k]) for k in slots}
            expected = new
            check(session, optimizer, v, expected, slots)


def check(session, optimizer, v, expected, slots):
    tolerance = 2e-5  # hyperparameters given as Python numbers are float32, as in 1.x
    np.testing.assert_allclose(session.run(v), expected, rtol=tolerance, atol=tolerance)
    assert optimizer.get_slot_names() == sorted(slots)
    for name, slot in slots.items():
        np.testing.assert_allclose(session.run(optimizer.get_slot(v, name)), slot, rtol=tolerance,
                                   atol=tolerance)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_minimize_reduces_a_loss(name):
    """Through gradients(), with a dense and a gathered (sparse) variable."""
    step = train.create_global_step()
    dense = hf.Variable([[1.0, 2.0], [3.0, 4.0]])
    table = hf.Variable(np.ones((5, 2), np.float32))
    rows = hf.gather(table, [3, 1, 3])
    loss = hf.reduce_sum(hf.square(dense - 1.5)) + hf.reduce_sum(hf.square(rows))
    update = OPTIMIZERS[name][0]().minimize(loss, global_step=step)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        first = session.run(loss)
        for _ in range(10):
            session.run(update)
        assert session.run(loss) < first
        np.testing.assert_array_equal(session.run(table)[[0, 2, 4]], np.ones((3, 2)))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_update_in_place(name):
    """A training step copies neither variables nor slots, though it read them before."""
    step = train.create_global_step()
    dense = hf.Variable(np.ones((30, 20), np.float32), name="dense")
    table = hf.Variable(np.ones((50, 20), np.float32), name="table")
    product = hf.matmul(hf.gather(table, [3, 1, 3]), dense, transpose_b=True)
    loss = hf.reduce_sum(hf.square(product)) + hf.reduce_sum(dense * dense)
    update = OPTIMIZERS[name][0]().minimize(loss, global_step=step)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run([update, loss])
        before = addresses(session)
        for _ in range(3):
            session.run([update, loss])
        assert len(before) >= 2 and addresses(session) == before


# Moments of gathered rows are assigned whole: they take over the memory of what is computed.
ASSIGNED = ("table/Adam", "table/Adam_1")


def addresses(session):
    """Where the values of the session's variables are, without scalars and what is assigned."""
    states = [state for _, _, state in session._engine.task.resources.items("variable")]
    return {s.name: s.value.__array_interface__["data"][0] for s in states
            if s.shape and s.name not in ASSIGNED}


# ---------------------------------------------------------------- parts of minimize


def test_compute_gradients():
    v, w = hf.Variable(3.0), hf.Variable(4.0)
    unused = hf.Variable(1.0)
    optimizer = train.GradientDescentOptimizer(1.0)
    for gate in (optimizer.GATE_NONE, optimizer.GATE_OP):
        pairs = optimizer.compute_gradients(v * w, gate_gradients=gate)
        assert [var for _, var in pairs] == [v, w, unused]
        assert pairs[2][0] is None
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            assert session.run([pairs[0][0], pairs[1][0]]) == [4, 3]
    pairs = optimizer.compute_gradients(v * w, [v, w], gate_gradients=optimizer.GATE_GRAPH,
                                        grad_loss=hf.constant(2.0))
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        assert session.run([g for g, _ in pairs]) == [8, 6]


def test_apply_gradients_skips_none():
    v, w = hf.Variable([1.0]), hf.Variable([1.0])
    update = train.AdagradOptimizer(0.1).apply_gradients([([1.0], v), (None, w)])
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(update)
        assert session.run(w) == [1]
    assert update in hf.get_collection(hf.GraphKeys.TRAIN_OP)


def test_bad_arguments():
    v, i = hf.Variable([1.0]), hf.Variable([1], trainable=False)
    optimizer = train.GradientDescentOptimizer(0.1)
    loss = hf.reduce_sum(v)
    with pytest.raises(ValueError, match="No gradients"):
        optimizer.minimize(hf.constant(1.0))
    with pytest.raises(ValueError, match="gate_gradients"):
        optimizer.compute_gradients(loss, gate_gradients=7)
    with pytest.raises(ValueError, match="No variables"):
        optimizer.compute_gradients(loss, var_list=[])
    with pytest.raises(ValueError, match="No variables"):
        optimizer.apply_gradients([])
    with pytest.raises(ValueError, match="No gradients"):
        optimizer.apply_gradients([(None, v)])
    with pytest.raises(TypeError, match=r"not a tf\.Variable"):
        optimizer.compute_gradients(loss, var_list=["v"])
    with pytest.raises(ValueError, match="Invalid type int32"):
        optimizer.compute_gradients(hf.reduce_sum(i))
    with pytest.raises(TypeError, match="Gradient must be"):
        optimizer.apply_gradients([(object(), v)])
    with pytest.raises(ValueError, match="name"):
        train.Optimizer(False, "")
    for make in (lambda: train.AdagradOptimizer(0.1, 0.0), lambda: train.FtrlOptimizer(0.1, 0.5),
                 lambda: train.FtrlOptimizer(0.1, l1_regularization_strength=-1.0),
                 lambda: train.AdagradDAOptimizer(0.1, v, 0.0),
                 lambda: train.ProximalAdagradOptimizer(0.1, -1.0)):
        with pytest.raises(ValueError, match=r"positive|negative"):
            make()


def test_names(graph):
    with hf.name_scope("layer"):
        w = hf.Variable([1.0, 2.0], name="w")
    loss = hf.reduce_sum(w * w)
    step = train.create_global_step()
    train.AdamOptimizer(0.1).minimize(loss, global_step=step)
    update = train.AdagradOptimizer(0.1).minimize(loss, name="train")
    names = [v.op.name for v in hf.global_variables()]
    assert names == ["layer/w", "global_step", "beta1_power", "beta2_power", "layer/w/Adam",
                     "layer/w/Adam_1", "layer/w/Adagrad"]
    assert update.name == "train"
    assert graph.get_operation_by_name("Adam").type == "AssignAdd"
    apply = graph.get_operation_by_name("Adam/update_layer/w/ApplyAdam")
    assert apply.colocation_groups() == [b"loc:@layer/w"]
    slot = graph.get_operation_by_name("layer/w/Adam")
    assert slot.colocation_groups() == [b"loc:@layer/w"]
    assert hf.trainable_variables() == [w]


def test_slots_follow_devices_and_partitions():
    with hf.device("/job:ps/task:1"):
        v = hf.Variable([1.0])
    parts = hf.get_variable("p", [4, 2], partitioner=hf.fixed_size_partitioner(2))
    whole = hf.convert_to_tensor(parts)
    optimizer = train.MomentumOptimizer(0.1, 0.9)
    update = optimizer.minimize(hf.reduce_sum(hf.square(whole)) + hf.reduce_sum(v * v))
    assert optimizer.get_slot(v, "momentum").device == "/job:ps/task:1"
    second = list(parts)[1]
    slot = optimizer.get_slot(second, "momentum")
    assert slot.op.name == "p/part_1/Momentum"
    info = slot._get_save_slice_info()
    assert info.full_name == "p/Momentum" and info.spec == "4 2 2,2:0,2"
    with hf.Session() as session:
        assert optimizer.get_slot(second, "nothing") is None
        assert update is not None and session is not None


def test_rate_as_tensor_and_mixed_types():
    rate = hf.placeholder(hf.float32, [])
    v, w = hf.Variable([1.0]), hf.Variable(np.ones(1))
    update = train.GradientDescentOptimizer(rate).apply_gradients(
        [(hf.constant([1.0]), v), (hf.constant(np.ones(1)), w)])
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(update, {rate: 0.5})
        assert session.run([v, w]) == [0.5, 0.5]


def test_variable_of_unknown_shape():
    value = hf.placeholder(hf.float32)
    v = hf.Variable(value, validate_shape=False)
    update = train.AdagradOptimizer(0.1).apply_gradients([(hf.identity(v), v)])
    with hf.Session() as session:
        session.run(hf.global_variables_initializer(), {value: [3.0, 4.0]})
        session.run(update)
        x = np.array([3.0, 4.0])
        np.testing.assert_allclose(session.run(v), x - 0.1 * x / np.sqrt(0.1 + x**2), rtol=1e-5)


def test_several_graphs():
    optimizer = train.AdamOptimizer(0.1)
    for _ in range(2):
        with hf.Graph().as_default(), hf.Session() as session:
            v = hf.Variable([1.0])
            update = optimizer.minimize(hf.reduce_sum(v * v))
            session.run(hf.global_variables_initializer())
            session.run(update)
            np.testing.assert_allclose(session.run(v), [0.9], rtol=1e-5)


# ---------------------------------------------------------------- the global step


def test_global_step_helpers(graph):
    assert train.get_global_step() is None
    step = train.create_global_step()
    assert step.op.name == "global_step" and step.dtype.base_dtype is hf.int64
    assert train.get_global_step() is step is train.get_or_create_global_step()
    with pytest.raises(ValueError, match="already exists"):
        train.create_global_step()
    with hf.Graph().as_default() as other:
        assert train.get_or_create_global_step(other).graph is other
    with hf.Graph().as_default():
        v = hf.Variable(0, name="global_step")
        assert train.get_global_step().name == v.name
    for bad in (hf.Variable(0.0), hf.Variable([1]), 3):
        with pytest.raises(TypeError):
            train.assert_global_step(bad)
