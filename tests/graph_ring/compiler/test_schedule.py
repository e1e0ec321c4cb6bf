"""schedule: the order of a part, and the estimate of its peak memory."""

from __future__ import annotations

import pytest

import hpcflow as hf
from hpcflow import config, kernels
from hpcflow.compiler.distribute.partition import partition
from hpcflow.compiler.distribute.place import DeviceInfo, Placer
from hpcflow.compiler.distribute.schedule import schedule
from hpcflow.compiler.regions.regions import assign_regions
from hpcflow.compiler.rewrite.prune import prune

A, B = ("/job:a/replica:0/task:0/device:CPU:0", "/job:b/replica:0/task:0/device:CPU:0")


@pytest.fixture(autouse=True)
def graph():
    kernels.load()
    with hf.Graph().as_default() as graph:
        yield graph


def scheduled(fetches, feeds=()):
    """(names in their order, estimate)"""
    step = prune(fetches if isinstance(fetches, list) else [fetches], list(feeds), A)
    peak = schedule(step.nodes)
    assert sorted(n.order for n in step.nodes) == list(range(len(step.nodes)))
    return [n.name for n in sorted(step.nodes, key=lambda n: n.order)], peak


def before(names, *wanted):
    places = [names.index(w) for w in wanted]
    return places == sorted(places)


def deep_stack(layers):
    h = x = hf.placeholder(hf.float32, [8, 64])
    for i in range(layers):
        w = hf.get_variable(f"w{i}", [64, 64])
        h = hf.nn.relu(hf.matmul(h, w))
    train = hf.train.GradientDescentOptimizer(0.1).minimize(hf.reduce_sum(h))
    return x, train


def test_an_update_follows_its_gradient():
    x, train = deep_stack(6)
    names, peak = scheduled(train, [x])
    updates = [n for n in names if "ApplyGradientDescent" in n]
    assert len(updates) == 6
    products = [n for n in names if n.endswith("_grad/MatMul_1")]
    for update, following in zip(updates, products[1:], strict=False):
        assert before(names, update, following)
    # One gradient at a time, of 16 KB; the rest are activations of 2 KB.
    assert peak.nbytes < 2 * 16384 + 20 * 2048
    assert peak.node is not None and peak.largest[0][0] == 16384


def test_free_reads_come_before_updates():
    v = hf.Variable(1.0, name="v")
    update = hf.assign_add(v, 1.0, name="update")
    late = hf.exp(hf.identity(v, name="read"), name="late")
    names, _ = scheduled([update.op, late])
    assert before(names, "read", "late", "update")
    with hf.control_dependencies([update]):
        after = hf.identity(v, name="after")
    names, _ = scheduled([update.op, late, after])
    assert before(names, "late", "update", "after")


def test_resource_variables_by_shared_name():
    handles = [hf.raw_ops.VarHandleOp(dtype=hf.float32, shape=[2], shared_name="s", name=f"h{i}")
               for i in range(2)]
    hf.raw_ops.AssignAddVariableOp(resource=handles[0], value=[1.0, 1.0], name="update")
    update = hf.get_default_graph().get_operation_by_name("update")
    read = hf.raw_ops.ReadVariableOp(resource=handles[1], dtype=hf.float32, name="read")
    names, _ = scheduled([update, read])
    assert before(names, "read", "update")


def test_updates_of_one_variable_keep_their_order():
    v = hf.Variable(1.0, name="v")
    ops = [hf.assign_add(v, float(i), name=f"u{i}").op for i in range(4)]
    names, _ = scheduled(ops)
    assert before(names, "u0", "u1", "u2", "u3")


def test_updates_that_read_each_other():
    v, w = hf.Variable(1.0, name="v"), hf.Variable(2.0, name="w")
    one = hf.assign(v, w, name="one").op
    two = hf.assign(w, v, name="two").op
    names, _ = scheduled([two, one])
    assert before(names, "one", "two")


def test_side_effects_keep_their_order():
    x = hf.placeholder(hf.float32, [64])
    queue = hf.FIFOQueue(10, [hf.float32])
    big = hf.exp(x, name="big")
    ops = [queue.enqueue(hf.reduce_sum(big), name="q0"), queue.enqueue(x[0], name="q1"),
           hf.Print(big, [big], name="p").op]
    names, _ = scheduled(ops, [x])
    assert before(names, "q0", "q1", "p")


def test_fills_wait_for_their_reader():
    x = hf.placeholder(hf.float32, [])
    noise = hf.zeros_like(hf.zeros([5000]), optimize=False, name="fill")
    first = hf.exp(hf.exp(x, name="e1"), name="e2")
    names, _ = scheduled(noise * first, [x])
    assert "fill" in names


def test_what_other_tasks_wait_for_comes_first():
    x = hf.placeholder(hf.float32, [4])
    with hf.device(A):
        local = hf.exp(x, name="local")
        sent = hf.sin(x, name="sent")
    with hf.device(B):
        far = hf.cos(sent, name="far")
    step = prune([local, far], [x], A)
    Placer([DeviceInfo(A, "CPU", 0), DeviceInfo(B, "CPU", 0)], A.rpartition("/")[0], False,
           False).place(step, {})
    assign_regions(step)
    part = partition(step)["/job:a/replica:0/task:0"]
    schedule(part)
    names = [n.name for n in sorted(part, key=lambda n: n.order)]
    assert before(names, "sent", "sent/_send_0", "local")


def test_the_estimate_is_printed_on_request(capsys):
    x = hf.placeholder(hf.float32, [1000])
    y = hf.reduce_sum(hf.exp(x, name="e"))
    config.flags.reload({"HPCFLOW_PRINT_MEMORY": "1"})
    try:
        with hf.Session() as session:
            session.run(y, {x: [1.0] * 1000})
    finally:
        config.flags.reload()
    assert "about 4,0" in (text := capsys.readouterr().err) and "4,000  e" in text


def branches(count, side):
    """Built level by level."""
    x = hf.placeholder(hf.float32, [side, side])
    values = [x * float(i) for i in range(count)]
    for level in hf.sin, hf.cumsum, hf.reduce_max:
        values = [level(v) for v in values]
    return x, hf.add_n(values)


def test_branches_run_one_after_the_other_where_that_needs_less():
    x, out = branches(20, 1000)
    _, peak = scheduled(out, [x])
    assert peak.nbytes < 9_000_000
    found = hf.graph_util.estimate_memory(out, [x])["/job:localhost/replica:0/task:0"]
    assert found.bytes < 9_000_000 and found.largest[0][0] == 4_000_000 and found.op_name


def test_the_order_of_construction_stays_where_it_needs_no_more():
    x, out = branches(20, 10)
    names, _ = scheduled(out, [x])
    assert before(names, "Sin_18", "Sin_19", "Cumsum")


def test_memory_of_the_tasks_of_a_cluster():
    cluster = hf.train.ClusterSpec({"ps": ["a:1"], "worker": ["b:1"]})
    with hf.device("/job:worker/task:0"):
        x = hf.random_uniform([1000, 1000])
        y = hf.reduce_sum(hf.exp(x))
    found = hf.graph_util.estimate_memory([y], cluster=cluster)
    assert found["/job:worker/replica:0/task:0"].bytes >= 4_000_000
    with pytest.raises(hf.errors.InvalidArgumentError, match="no such device"):
        hf.graph_util.estimate_memory(y)
