"""Loops, branches, arrays and their gradients over devices."""

import numpy as np
import pytest
from fake_accelerator import FakeDevice, fake_accelerators

import hpcflow as hf

pytestmark = pytest.mark.usefixtures("form")

X = np.array([[0.3, -0.2], [0.5, 0.1]], np.float32)
W = np.array([[0.5, 0.4], [-0.3, 0.8]], np.float32)


def model(parallel=10, swap=False, place=None):
    """Fetches of a loop with a branch and an array, and their gradients."""
    x, w = hf.placeholder(hf.float32, [2, 2]), hf.placeholder(hf.float32, [2, 2])

    def body(i, a, ta):
        with hf.device(place):
            a = hf.tanh(hf.matmul(a, w))
        a = hf.cond(hf.equal(i % 2, 0), lambda: a * 2.0 + x, lambda: a)
        return [i + 1, a, ta.write(i, hf.reduce_sum(a * a, 1))]

    _, a, ta = hf.while_loop(lambda i, *_: i < 5, body, [0, x, hf.TensorArray(hf.float32, 5)],
                             parallel_iterations=parallel, swap_memory=swap)
    stacked = ta.stack()
    grads = hf.gradients([a, stacked], [x, w])
    return [a, stacked, *grads], {x: X, w: W}


@pytest.fixture(scope="module")
def expected():
    with hf.Graph().as_default(), hf.Session() as session:
        fetches, feeds = model()
        return session.run(fetches, feeds)


def check(session, model, expected):
    for _ in range(2):
        for value, wanted in zip(session.run(*model), expected):
            np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("parallel", [1, 10])
def test_a_body_over_two_devices(graph, expected, parallel):
    config = hf.ConfigProto(device_count={"CPU": 2})
    with hf.Session(config=config) as session:
        check(session, model(parallel, place="/cpu:1"), expected)


@pytest.mark.parametrize("parallel", [1, 10])
@pytest.mark.parametrize("swap", [False, True])
def test_on_a_device_with_its_own_memory(graph, expected, parallel, swap):
    with fake_accelerators(1), hf.Session() as session:
        check(session, model(parallel, swap), expected)


def test_between_host_and_device(graph, expected):
    with fake_accelerators(1), hf.Session() as session:
        check(session, model(place="/cpu:0"), expected)


def test_swapping_moves_the_stacks_to_the_host(graph, expected):
    def moved(swap):
        with hf.Graph().as_default(), fake_accelerators(1), hf.Session() as session:
            fetches, feeds = model(swap=swap)
            session.run(fetches, feeds)
            device = next(d for d in session._engine.task.devices if isinstance(d, FakeDevice))
            return device.moved_out

    assert moved(True) > moved(False)


@pytest.mark.parametrize("parallel", [1, 10])
def test_swapping_bounds_the_memory_of_the_device(parallel):
    """The stacks of a loop's gradient are on the host: any number of iterations fits."""
    def most(swap, count):
        with hf.Graph().as_default(), fake_accelerators(1), hf.Session() as session:
            with hf.device("/device:FAKE:0"):
                x = hf.placeholder(hf.float32, [64, 64])
                y = hf.while_loop(lambda i, _: i < count, lambda i, a: (i + 1, hf.tanh(a) * 1.5),
                                  [0, x], parallel_iterations=parallel, swap_memory=swap)[1]
                gradient = hf.gradients(y, x)[0]
            value = session.run(gradient, {x: np.full([64, 64], 0.3, np.float32)})
            device = next(d for d in session._engine.task.devices if isinstance(d, FakeDevice))
            return value, device.most_in_use / value.nbytes

    (kept, more), (_, less) = most(False, 40), most(False, 10)
    assert less >= 10 and more >= less + 29
    swapped, bound = most(True, 40)
    assert bound <= parallel + 10 < more
    np.testing.assert_array_equal(swapped, kept)


def test_arrays_on_a_device(graph):
    with fake_accelerators(1), hf.Session() as session:
        x = hf.placeholder(hf.float32, [3, 2])
        ta = hf.TensorArray(hf.float32, 3, clear_after_read=False).unstack(x)
        parts = hf.TensorArray(hf.float32, 2, clear_after_read=False, infer_shape=False)
        parts = parts.split(x, [1, 2])
        fetches = [ta.stack(), ta.gather([2, 0]), ta.size(), parts.concat(), parts.read(1),
                   hf.gradients(ta.stack() * 2.0, x)[0], hf.map_fn(lambda r: r * 2.0, x)]
        value = np.arange(6, dtype=np.float32).reshape(3, 2)
        wanted = [value, value[[2, 0]], 3, value, value[1:], np.full((3, 2), 2), value * 2]
        for got, want in zip(session.run(fetches, {x: value}), wanted):
            np.testing.assert_array_equal(got, want)


# ---------------------------------------------------------------- tasks


@pytest.fixture
def worker():
    """A worker with a parameter server beside it, in this process."""
    spec = hf.train.ClusterSpec({"ps": ["localhost:2222"], "worker": ["localhost:3333"]})
    servers = [hf.train.Server(spec, job, 0) for job in ("ps", "worker")]
    yield servers[1], spec
    for server in servers:
        server._server.close()


def test_variables_of_another_task_in_a_loop(graph, worker):
    server, spec = worker
    with hf.device(hf.train.replica_device_setter(cluster=spec,
                                                  worker_device="/job:worker/task:0")):
        w = hf.Variable(0.5 * np.eye(2, dtype=np.float32))
        rows = hf.Variable(np.ones((4, 2), np.float32))

        def body(i, a):
            return [i + 1, hf.cond(hf.equal(i % 2, 0),
                                   lambda: hf.matmul(a, w) + hf.gather(rows, [i, 0, 1]),
                                   lambda: a)]

        y = hf.while_loop(lambda i, _: i < 3, body, [0, hf.ones([3, 2])])[1]
        loss = hf.reduce_sum(y * y)
        train = hf.train.GradientDescentOptimizer(0.01).minimize(loss)
    inside = [op for op in graph.get_operations() if op._get_control_flow_context() is not None]
    assert {op.device for op in inside} == {"/job:worker/task:0"}
    with hf.Session(server.target) as session:
        session.run(hf.global_variables_initializer())
        before = session.run(loss)
        for _ in range(5):
            session.run(train)
        assert session.run(loss) < before


def test_a_branch_on_another_task(graph, worker):
    p, x = hf.placeholder(hf.bool, []), hf.constant(2.0)

    def far():
        with hf.device("/job:ps/task:0"):
            return x * 3.0

    y = hf.cond(p, far, lambda: x)
    grad = hf.gradients(y, x)[0]
    with hf.Session(worker[0].target) as session:
        assert session.run([y, grad], {p: True}) == [6, 3]
        assert session.run([y, grad], {p: False}) == [2, 1]
