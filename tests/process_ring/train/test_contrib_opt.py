"""The optimizers of ``contrib.opt``, against their formulas in NumPy."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import opt

W0 = np.array([[1.0, -2.0], [3.0, 0.5], [-1.0, 2.0]])
G = [np.array([[0.5, -1.0], [0.0, 2.0], [1.0, 1.0]]),
     np.array([[0.25, 1.0], [-1.0, 2.0], [0.0, -1.0]])]
ROWS = [[0, 2, 0], [1, 0]]  # of sparse gradients; those of one row add up


def nadam(w, grads, rate=0.1, b1=0.9, b2=0.999, eps=1e-8):
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(grads, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        r = rate * np.sqrt(1 - b2**t) / (1 - b1**t)
        moved = np.any(g != 0, axis=1, keepdims=True) if np.any(np.all(g == 0, axis=1)) else 1
        w = w - moved * r * (b1 * m + (1 - b1) * g) / (np.sqrt(v) + eps)
    return w


def lazy_adam(w, grads, rate=0.1, b1=0.9, b2=0.999, eps=1e-8):
    m, v, w = np.zeros_like(w), np.zeros_like(w), w.copy()
    for t, g in enumerate(grads, 1):
        r = rate * np.sqrt(1 - b2**t) / (1 - b1**t)
        for i in range(len(w)):
            if np.any(g[i] != 0):
                m[i], v[i] = b1 * m[i] + (1 - b1) * g[i], b2 * v[i] + (1 - b2) * g[i] ** 2
                w[i] -= r * m[i] / (np.sqrt(v[i]) + eps)
    return w


def ada_max(w, grads, rate=0.1, b1=0.9, b2=0.999, eps=1e-8, lazily=False):
    m, v, w = np.zeros_like(w), np.zeros_like(w), w.copy()
    for t, g in enumerate(grads, 1):
        for i in range(len(w)):
            if np.any(g[i] != 0) or not lazily:
                m[i], v[i] = b1 * m[i] + (1 - b1) * g[i], np.maximum(b2 * v[i], abs(g[i]))
                w[i] -= rate / (1 - b1**t) * m[i] / (v[i] + eps)
    return w


def signs(w, grads, factor, rate=0.1, beta=0.9):
    m = np.zeros_like(w)
    for g in grads:
        m = beta * m + (1 - beta) * g
        w = w - rate * factor(np.sign(g) * np.sign(m)) * g
    return w


def adam_w(w, grads, decay=0.01, rate=0.1, b1=0.9, b2=0.999, eps=1e-8):
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(grads, 1):
        w = w - decay * w
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        w = w - rate * np.sqrt(1 - b2**t) / (1 - b1**t) * m / (np.sqrt(v) + eps)
    return w


def trained(optimizer, sparse, by_handle, **options):
    """The variable after two steps, and the gradients of these as dense arrays."""
    dense = []
    with hf.Graph().as_default(), hf.Session() as session:
        var = hf.Variable(W0, use_resource=by_handle)
        steps = []
        for g, rows in zip(G, ROWS, strict=True):
            grad = hf.IndexedSlices(hf.constant(g[:len(rows)]), hf.constant(rows), [3, 2]) \
                if sparse else hf.constant(g)
            steps.append(optimizer.apply_gradients([(grad, var)], **options))
            whole = np.zeros_like(W0)
            np.add.at(whole, rows, g[:len(rows)])
            dense.append(whole if sparse else g)
        session.run(hf.global_variables_initializer())
        for step in steps:
            session.run(step)
        return session.run(var), dense


CASES = {
    "Nadam": (lambda: opt.NadamOptimizer(0.1), nadam, nadam),
    "LazyAdam": (lambda: opt.LazyAdamOptimizer(0.1), None, lazy_adam),
    "AdaMax": (lambda: opt.AdaMaxOptimizer(0.1), ada_max,
               lambda w, g: ada_max(w, g, lazily=True)),
    "AddSign": (lambda: opt.AddSignOptimizer(), lambda w, g: signs(w, g, lambda s: 1 + s), None),
    "PowerSign": (lambda: opt.PowerSignOptimizer(), lambda w, g: signs(w, g, np.exp), None),
    "AdamW": (lambda: opt.AdamWOptimizer(0.01, 0.1), adam_w, None),
    "extended": (lambda: opt.extend_with_decoupled_weight_decay(hf.train.AdamOptimizer)(0.01, 0.1),
                 adam_w, None),
    "MomentumW": (lambda: opt.MomentumWOptimizer(0.01, 0.1, 0.0),
                  lambda w, g: ((w * 0.99 - 0.1 * g[0]) * 0.99 - 0.1 * g[1]), None),
}  # fmt: skip


@pytest.mark.parametrize("by_handle", [False, True], ids=["reference", "handle"])
@pytest.mark.parametrize("name", CASES)
def test_dense_updates(name, by_handle):
    make, formula, _ = CASES[name]
    found, grads = trained(make(), False, by_handle)
    if formula is not None:
        np.testing.assert_allclose(found, formula(W0, grads), rtol=1e-5)


@pytest.mark.parametrize("name", ["Nadam", "LazyAdam", "AdaMax"])
@pytest.mark.parametrize("by_handle", [False, True], ids=["reference", "handle"])
def test_sparse_updates(name, by_handle):
    make, _, formula = CASES[name]
    found, grads = trained(make(), True, by_handle)
    np.testing.assert_allclose(found, formula(W0, grads), rtol=1e-5)


def test_sparse_updates_by_signs_change_their_rows_only():
    found, grads = trained(opt.AddSignOptimizer(), True, False)
    m, w = np.zeros_like(W0), W0.copy()
    for g in grads:
        rows = np.any(g != 0, axis=1)
        m[rows] = 0.9 * m[rows] + 0.1 * g[rows]
        w[rows] -= 0.1 * (1 + np.sign(g[rows]) * np.sign(m[rows])) * g[rows]
    np.testing.assert_allclose(found, w, rtol=1e-5)


def test_a_sparse_gradient_decays_its_rows():
    found, grads = trained(opt.MomentumWOptimizer(0.5, 0.1, 0.0), True, False)
    w = W0.copy()
    for g in grads:
        rows = np.any(g != 0, axis=1)
        w[rows] = 0.5 * w[rows] - 0.1 * g[rows]
    np.testing.assert_allclose(found, w, rtol=1e-5)


def test_only_some_variables_decay(session):
    a, b = hf.Variable(1.0), hf.Variable(1.0)
    step = opt.MomentumWOptimizer(0.5, 0.0, 0.0).minimize(a + b, decay_var_list=[a])
    session.run(hf.global_variables_initializer())
    session.run(step)
    assert session.run([a, b]) == [0.5, 1.0]


def test_decays_of_signs(session):
    step = hf.placeholder(hf.int64, [])
    decays = [opt.get_linear_decay_fn(10)(step), opt.get_cosine_decay_fn(10)(step),
              opt.get_restart_decay_fn(10, 2)(step), opt.get_restart_decay_fn(10, 2, 1)(step),
              opt.get_cosine_decay_fn(10, zero_after=0.2)(step)]
    found = np.array([session.run(decays, {step: n}) for n in (0, 5, 7, 20)])
    cosine = 0.5 * (1 + np.cos(np.pi * np.array([0, 0.5, 0.7, 1])))
    np.testing.assert_allclose(found[:, 0], [1, 0.5, 0.3, 0], atol=1e-6)
    np.testing.assert_allclose(found[:, 1], cosine, atol=1e-6)
    restarted = [1, 1, 0.5 * (1 + np.cos(np.pi * 0.4)), 1]
    np.testing.assert_allclose(found[:, 2], restarted, atol=1e-6)
    np.testing.assert_allclose(found[:, 3], [1, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(found[:, 4], [1, 0, 0, 0], atol=1e-6)
    with pytest.raises(ValueError, match="decay_steps must be positive"):
        opt.get_linear_decay_fn(0)


def test_the_sign_decays_with_the_global_step(session):
    step = hf.train.get_or_create_global_step()
    var = hf.Variable(0.0)
    optimizer = opt.AddSignOptimizer(1.0, 1.0, sign_decay_fn=opt.get_linear_decay_fn(2))
    train = optimizer.apply_gradients([(hf.constant(1.0), var)], global_step=step)
    session.run(hf.global_variables_initializer())
    values = []
    for _ in range(3):
        session.run(train)
        values.append(session.run(var))
    np.testing.assert_allclose(values, [-2, -3.5, -4.5])


def test_averages_are_saved_in_place_of_the_variables(session, tmp_path):
    w = hf.Variable([2.0], name="w")
    optimizer = opt.MovingAverageOptimizer(hf.train.MomentumOptimizer(1.0, 0.0), 0.5)
    with pytest.raises(RuntimeError, match="apply_gradients"):
        optimizer.swapping_saver()
    train = optimizer.minimize(hf.reduce_sum(w))
    saver = optimizer.swapping_saver()
    session.run(hf.global_variables_initializer())
    session.run(train)
    path = saver.save(session, str(tmp_path / "model"))
    reader = hf.train.NewCheckpointReader(path)
    assert reader.get_tensor("w") == [1.5]  # the average of 2 and 1
    assert reader.get_tensor("w/ExponentialMovingAverage") == [1.0]
    session.run(hf.global_variables_initializer())
    saver.restore(session, path)
    assert session.run(w) == [1.0]
    assert optimizer.get_slot_names() == ["momentum"]
    assert {v.op.name for v in optimizer.variables()} == {
        "w/Momentum", "w/ExponentialMovingAverage"}


def test_variables_are_clipped_after_updates(session):
    w = hf.Variable([[3.0, 4.0], [0.3, 0.4]])
    optimizer = opt.VariableClippingOptimizer(hf.train.GradientDescentOptimizer(1.0), {w: [1]}, 1.0)
    dense = optimizer.minimize(0.0 * hf.reduce_sum(w))
    sparse = optimizer.minimize(0.0 * hf.reduce_sum(hf.gather(w, [0, 0])))
    session.run(hf.global_variables_initializer())
    session.run(sparse)
    np.testing.assert_allclose(session.run(w), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    session.run(w.assign([[3.0, 4.0], [6.0, 8.0]]))
    session.run(dense)
    np.testing.assert_allclose(session.run(w), [[0.6, 0.8], [0.6, 0.8]], rtol=1e-6)


@pytest.mark.parametrize("by_handle", [False, True])
def test_an_optimizer_of_scipy(session, by_handle):
    pytest.importorskip("scipy")
    x = hf.Variable([5.0, 5.0], use_resource=by_handle)
    y = hf.Variable(3.0, use_resource=by_handle)
    target = hf.placeholder(hf.float32, [])
    loss = hf.reduce_sum(hf.square(x - target)) + hf.square(y)
    session.run(hf.global_variables_initializer())
    steps, losses = [], []
    interface = opt.ScipyOptimizerInterface(loss, options={"maxiter": 100})
    interface.minimize(session, {target: 2.0}, fetches=[loss], step_callback=steps.append,
                       loss_callback=losses.append)
    np.testing.assert_allclose(session.run(x), [2, 2], atol=1e-4)
    assert len(steps) >= 1 and losses[0] == 27 and losses[-1] < 1e-6
    opt.ScipyOptimizerInterface(loss, var_to_bounds={x: (3.0, [4.0, np.inf])}).minimize(
        session, {target: 2.0})
    np.testing.assert_allclose(session.run(x), [3, 3], atol=1e-4)
    opt.ScipyOptimizerInterface(loss, equalities=[x[0] + x[1] - 2.0], inequalities=[y - 1.0],
                                method="SLSQP").minimize(session, {target: 2.0})
    np.testing.assert_allclose(session.run(x), [1, 1], atol=1e-4)
    np.testing.assert_allclose(session.run(y), 1, atol=1e-4)


def test_variables_of_optimizers_of_programs(session):
    class Counting(hf.train.Optimizer):
        def __init__(self):
            super().__init__(False, "Counting")

        def _create_slots(self, var_list):
            self._create_non_slot_variable(0.0, "count", var_list[0])
            for var in var_list:
                self._get_or_make_slot_with_initializer(
                    var, hf.constant_initializer(2.0), var.shape, var.dtype, "scale", self._name)

        def _apply_dense(self, grad, var):
            return var.assign_sub(self.get_slot(var, "scale") * grad).op

        def _finish(self, updates, name_scope):
            count = self._get_non_slot_variable("count", hf.get_default_graph())
            with hf.control_dependencies(updates):
                return hf.group(count.assign_add(self._call_if_callable(lambda: 1.0)),
                                name=name_scope)

    var = hf.Variable([1.0])
    optimizer = Counting()
    train = optimizer.minimize(hf.reduce_sum(var))
    session.run(hf.global_variables_initializer())
    session.run(train)
    assert session.run(var) == [-1.0]
    assert session.run(optimizer.variables()) == [[2.0], 1.0]
    assert optimizer._get_non_slot_variable("count", hf.Graph()) is None


@pytest.mark.parametrize("nesterov", [False, True])
def test_rates_by_the_ratio_of_norms(nesterov, session):
    decay, eeta, rate, momentum = 0.01, 0.1, 0.5, 0.9
    start = {"w": np.array([1.0, -2.0, 3.0]), "bias": np.array([0.5, 0.0]), "unused": np.ones(2)}
    w, bias, unused = (hf.Variable(value, name=name) for name, value in start.items())
    loss = hf.reduce_sum(w**2 * [1.0, 2.0, 3.0]) + hf.reduce_sum(bias**2) + 0 * hf.reduce_sum(
        unused)
    step = hf.contrib.opt.LARSOptimizer(rate, momentum, decay, eeta, skip_list=["bias"],
                                        use_nesterov=nesterov).minimize(loss)
    session.run(hf.global_variables_initializer())
    values = {name: value.copy() for name, value in start.items()}
    sums = {name: np.zeros_like(value) for name, value in start.items()}
    for _ in range(3):
        session.run(step)
        grads = {"w": 2 * values["w"] * [1, 2, 3], "bias": 2 * values["bias"],
                 "unused": np.zeros(2)}
        for name, grad in grads.items():
            scaled = rate
            if name != "bias":
                norms = np.linalg.norm(values[name]), np.linalg.norm(grad)
                if norms[1]:
                    scaled *= eeta * norms[0] / (norms[1] + decay * norms[0])
                grad = grad + decay * values[name]
            sums[name] = momentum * sums[name] + scaled * grad
            values[name] -= scaled * grad + momentum * sums[name] if nesterov else sums[name]
    for variable in (w, bias, unused):
        np.testing.assert_allclose(session.run(variable), values[variable.op.name], rtol=1e-6,
                                   atol=1e-12)


def test_rates_by_norms_need_whole_gradients(graph):
    w = hf.Variable(hf.ones([3, 2]))
    with pytest.raises(TypeError, match="dense"):
        hf.contrib.opt.LARSOptimizer(0.1).minimize(hf.reduce_sum(hf.gather(w, [0])))
