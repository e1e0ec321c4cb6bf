"""Steps on a device with memory of its own: what is moved, when, and that nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from fake_accelerator import FakeArray, FakeDevice, fake_accelerators
from raw_control_flow import branches, loop

import hpcflow as hf
from hpcflow import raw_ops


@pytest.fixture(autouse=True)
def accelerators():
    with fake_accelerators(2):
        yield


@pytest.fixture
def session(graph, form):
    with hf.Session() as session:
        yield session


def fake(session, index=0):
    """The session's device object."""
    return [d for d in session._engine.task.devices if isinstance(d, FakeDevice)][index]


def test_it_refuses_to_be_host_memory(session):
    array = fake(session).xp.zeros([2, 3])
    assert isinstance(array, FakeArray)
    for misuse in (lambda: np.asarray(array), lambda: np.add(array, 1.0),
                   lambda: np.zeros(3) + array, lambda: array + np.zeros(3),
                   lambda: fake(session).xp.add(array, np.zeros(3))):
        with pytest.raises(TypeError):
            misuse()
    np.testing.assert_array_equal(fake(session).to_host(array + 1.0), np.ones((2, 3)))


def test_accelerators_are_preferred(session):
    assert [d.type for d in session.list_devices()].count("FAKE") == 2
    x = hf.placeholder(hf.float32, [2])
    y = x * 2.0
    assert session.run(y, {x: [1, 2]}).tolist() == [2, 4]
    device = fake(session)
    assert device.launches >= 1
    assert fake(session, 1).launches == 0


def test_feeds_and_fetches_move_once(session):
    x = hf.placeholder(hf.float32, [2])
    y = x * 2.0 + hf.square(x)
    z = y - x
    session.run([y, z], {x: [1, 2]})
    device = fake(session)
    moved_in, moved_out = device.moved_in, device.moved_out
    values = session.run([y, z], {x: [1, 2]})
    assert [v.tolist() for v in values] == [[3, 8], [2, 6]]
    assert all(type(v) is np.ndarray for v in values)
    assert (device.moved_in - moved_in, device.moved_out - moved_out) == (1, 2)


def test_constants_move_once(session):
    x = hf.placeholder(hf.float32, [3])
    c = hf.constant([1.0, 2.0, 3.0])
    y = hf.add_n([x * c, x + c, hf.maximum(x, c)])
    session.run(y, {x: [0, 0, 0]})
    device = fake(session)
    before = device.moved_in
    for _ in range(3):
        assert session.run(y, {x: [0, 0, 0]}).tolist() == [2, 4, 6]
    assert device.moved_in - before == 3  # the feed


def test_host_inputs_stay_on_the_host(session):
    x = hf.placeholder(hf.float32, [2, 3])
    y = hf.reduce_sum(hf.transpose(hf.reshape(x, [3, 2])), 1)
    z = hf.reshape(x, hf.shape(hf.transpose(x)))
    shape = hf.shape(hf.concat([x, x], 0))
    session.run([y, z], {x: np.ones((2, 3))})
    device = fake(session)
    before = device.moved_out
    values = session.run([y, z, shape, hf.size(x)], {x: np.arange(6).reshape(2, 3)})
    assert [v.tolist() for v in values[:3]] == [[6, 9], [[0, 1], [2, 3], [4, 5]], [4, 3]]
    assert values[3] == 6
    assert device.moved_out - before <= 4


def test_variables_live_on_the_device(session):
    v = hf.Variable([1.0, 2.0], name="v")
    total = hf.reduce_sum(v)
    update = v.assign_add([1.0, 1.0])
    session.run(v.initializer)
    (state,) = [r for _, _, r in session._engine.task.resources.items("variable")]
    assert isinstance(state.value, FakeArray)
    assert session.run(total) == 3
    assert session.run(update).tolist() == [2, 3]
    fetched = session.run(v)
    fetched[:] = 0
    assert session.run(v).tolist() == [2, 3]
    assert session.run(hf.scatter_add(v, [1], [5.0])).tolist() == [2, 8]


def test_snapshots(session):
    v = hf.Variable([[1.0, 2.0], [3.0, 4.0]])
    before = v.read_value()
    view = hf.reshape(before, [4])
    with hf.control_dependencies([before, view]):
        update = v.assign_add(hf.ones([2, 2]))
    with hf.control_dependencies([update]):
        after = v.read_value()
        difference = after - before
    session.run(v.initializer)
    for i in range(3):
        got = session.run([view, after, difference])
        np.testing.assert_array_equal(got[0], np.arange(1, 5) + i)
        np.testing.assert_array_equal(got[1], np.arange(1, 5).reshape(2, 2) + i + 1)
        np.testing.assert_array_equal(got[2], np.ones((2, 2)))


def test_devices_exchange_values_through_the_host(session):
    x = hf.placeholder(hf.float32, [2])
    with hf.device("/device:FAKE:0"):
        a = x + 1.0
    with hf.device("/device:FAKE:1"):
        b = a * 2.0
    with hf.device("/cpu:0"):
        c = b - 3.0
    with hf.device("/device:FAKE:0"):
        d = a + b + c
    assert [v.tolist() for v in session.run([a, b, c, d], {x: [1, 2]})] == [
        [2, 3], [4, 6], [1, 3], [7, 12]]


def test_strings_and_what_has_no_kernel_there(session):
    s = hf.placeholder_with_default(["a", "b"], [2])
    assert session.run(hf.identity(s)).tolist() == [b"a", b"b"]
    with hf.device("/device:FAKE:0"):
        joined = hf.string_join([s, s])
    with pytest.raises(hf.errors.InvalidArgumentError, match="no kernel for the device type FAKE"):
        session.run(joined)
    with hf.Session(config=hf.ConfigProto(allow_soft_placement=True)) as soft:
        assert soft.run(joined).tolist() == [b"aa", b"bb"]


def test_control_flow(session):
    p = hf.placeholder(hf.bool, [])
    x = hf.placeholder(hf.float32, [2])
    result = branches(p, x, lambda t: t * 2.0, lambda f: f - 1.0)
    assert session.run(result, {p: True, x: [1, 2]}).tolist() == [2, 4]
    assert session.run(result, {p: False, x: [1, 2]}).tolist() == [0, 1]
    on_device = branches(hf.less(hf.reduce_sum(x), 4.0), x, hf.negative, hf.identity)
    assert session.run(on_device, {x: [1, 2]}).tolist() == [-1, -2]
    assert session.run(on_device, {x: [3, 2]}).tolist() == [3, 2]
    n = hf.placeholder(hf.float32, [])
    _, total = loop(lambda i, s, k: i < k, lambda i, s, k: [i + 1.0, s * 2.0],
                    [hf.constant(0.0), x], (n,))
    assert session.run(total, {n: 3, x: [1, 2]}).tolist() == [8, 16]


def test_errors_name_the_device(session):
    x = hf.placeholder(hf.float32, [None, None])
    y = hf.matmul(x, x, name="product")
    with pytest.raises(hf.errors.InvalidArgumentError) as caught:
        session.run(y, {x: np.ones((2, 3))})
    assert "op 'product' of type MatMul on /job:localhost/replica:0/task:0/device:FAKE:0" in str(
        caught.value)
    assert "float32[2,3]" in str(caught.value)
    assert session.run(y, {x: [[2.0]]}) == [[4]]


def mlp():
    """Loss and update of a perceptron with one hidden layer; every kind of op that training has."""
    x = hf.placeholder(hf.float32, [None, 8], name="x")
    labels = hf.placeholder(hf.int32, [None], name="labels")
    random = np.random.RandomState(1)
    w1 = hf.Variable(random.randn(8, 16).astype(np.float32) * 0.3)
    b1 = hf.Variable(hf.zeros([16]))
    w2 = hf.Variable(random.randn(16, 4).astype(np.float32) * 0.3)
    b2 = hf.Variable(hf.zeros([4]))
    hidden = hf.nn.relu(hf.nn.bias_add(hf.matmul(x, w1), b1))
    logits = hf.matmul(hidden, w2) + b2
    loss = hf.reduce_mean(hf.nn.softmax_cross_entropy_with_logits(
        labels=hf.one_hot(labels, 4), logits=logits))
    accuracy = hf.reduce_mean(hf.to_float(hf.equal(hf.to_int32(hf.argmax(logits, 1)), labels)))
    return x, labels, loss, accuracy, [w1, b1, w2, b2]


@pytest.mark.parametrize("optimizer", [
    lambda: hf.train.GradientDescentOptimizer(0.5), lambda: hf.train.MomentumOptimizer(0.1, 0.9),
    lambda: hf.train.AdagradOptimizer(0.3), lambda: hf.train.AdamOptimizer(0.05),
], ids=["descent", "momentum", "adagrad", "adam"])
def test_training_equals_the_cpu(form, optimizer):
    random = np.random.RandomState(0)
    batches = [(random.randn(12, 8).astype(np.float32), random.randint(0, 4, 12))
               for _ in range(5)]
    results = []
    for device in ("/cpu:0", "/device:FAKE:0"):
        with hf.Graph().as_default(), hf.device(device):
            x, labels, loss, accuracy, variables = mlp()
            train = optimizer().minimize(loss)
            with hf.Session() as session:
                session.run(hf.global_variables_initializer())
                values = []
                for images, classes in batches:
                    feeds = {x: images, labels: classes}
                    values.append(session.run([train, loss, accuracy], feeds)[1:])
                results.append((values, session.run(variables)))
                if "FAKE" in device:
                    held = [r for _, _, r in session._engine.task.resources.items("variable")]
                    assert all(isinstance(s.value, FakeArray) for s in held)
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    for a, b in zip(results[0][1], results[1][1]):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_gates_and_sums_on_the_device(session):
    """An asynchronous kernel gets device values like any other."""
    import async_ops

    x = hf.placeholder(hf.float32, [2])
    y = async_ops.later(x * 2.0) + 1.0
    first, second = raw_ops.TestPairLater(x=y)
    assert session.run(second - first, {x: [1, 2]}).tolist() == [3, 5]
