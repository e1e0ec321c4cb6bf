"""Placement: what a message says, and how accelerators and CPUs share a graph."""

from __future__ import annotations

import pytest
from fake_accelerator import fake_accelerators

import hpcflow as hf
from hpcflow import errors, raw_ops
from hpcflow.compiler.distribute.place import DeviceInfo, Placer
from hpcflow.compiler.ir.step_graph import StepGraph
from hpcflow.graph.opdef import has_op, register_op
from hpcflow.graph.shape_inference import unchanged
from hpcflow.kernels.registry import kernel

PREFIX = "/job:localhost/replica:0/task:0/device:"

if not has_op("TestOnlyFake"):
    register_op("TestOnlyFake", "x: T", "y: T", "T: type", shape=unchanged)
    register_op("TestOnlyCpu", "x: T", "y: T", "T: {float, int32}", shape=unchanged)
    register_op("TestNowhere", "x: T", "y: T", "T: type", shape=unchanged)
    register_op("TestOnlyFloat", "x: T", "y: T", "T: type", shape=unchanged)
    kernel("TestOnlyFake", device="FAKE")(lambda node: lambda x: x)
    kernel("TestOnlyCpu", device="CPU")(lambda node: lambda x: x)
    kernel("TestOnlyFloat", types={"T": ["float", "double"]})(lambda node: lambda x: x)


@pytest.fixture
def session(graph):
    with fake_accelerators(1), hf.Session() as session:
        yield session


@pytest.fixture
def x(graph):
    return hf.placeholder(hf.float32, [2], name="x")


def failure(session, fetches, feeds=None):
    with pytest.raises(errors.InvalidArgumentError) as caught:
        session.run(fetches, feeds)
    return str(caught.value)


def test_a_task_without_a_cluster_says_how_to_reach_one(session, x):
    with hf.device("/job:ps/task:0"):
        there = x + 1.0
    with hf.device("/device:GPU:7"):
        nowhere = x + 1.0
    assert "hf.Session(server.target)" in failure(session, there, {x: [1, 2]})
    assert "target" not in failure(session, nowhere, {x: [1, 2]})


def test_no_kernel_at_all(session, x):
    message = failure(session, raw_ops.TestNowhere(x=x, name="n"), {x: [1, 2]})
    assert "Cannot assign a device to node 'n': TestNowhere with T=float32 has no kernel" in message
    assert "no kernel is registered for TestNowhere" in message
    assert "op 'n' of type TestNowhere, created at" in message
    assert "test_placement_errors.py" in message


def test_no_kernel_for_the_type(session):
    i = hf.placeholder(hf.int32, [2])
    message = failure(session, raw_ops.TestOnlyFloat(x=i, name="f"), {i: [1, 2]})
    assert "TestOnlyFloat with T=int32 has no kernel for the device types CPU, FAKE" in message
    assert "kernels of TestOnlyFloat: every array device (T in {float32, float64})" in message


def test_no_kernel_on_the_device(session, x):
    with hf.device("/device:FAKE:0"):
        y = raw_ops.TestOnlyCpu(x=x, name="c")
    message = failure(session, y, {x: [1, 2]})
    assert ("TestOnlyCpu with T=float32 has no kernel for the device type FAKE that its constraint "
            "'/device:FAKE:0' allows") in message
    assert "kernels of TestOnlyCpu: CPU" in message


def test_a_group_that_no_device_serves(session, x):
    one = raw_ops.TestOnlyCpu(x=x, name="one")
    with hf.colocate_with(one.op):
        two = raw_ops.TestOnlyFake(x=one, name="two")
        three = raw_ops.TestOnlyCpu(x=two, name="three")
    message = failure(session, three, {x: [1, 2]})
    assert "no device type has kernels for all of its group" in message
    assert "colocation group: " in message
    assert all(f"{name}" in message for name in ("one", "two", "three"))
    assert "CPU has none for TestOnlyFake with T=float32" in message
    assert "FAKE has none for TestOnlyCpu with T=float32" in message


def test_groups_are_listed_up_to_a_point(session, x):
    with hf.device("/cpu:9"):
        first = hf.negative(x, name="first")
    with hf.colocate_with(first.op):
        last = hf.add_n([hf.negative(first) * float(i) for i in range(20)], name="last")
    message = failure(session, last, {x: [1, 2]})
    assert "Could not satisfy explicit device specification '/cpu:9'" in message or (
        "/device:CPU:9" in message)
    assert " more)" in message
    assert f"Available devices: {PREFIX}CPU:0, {PREFIX}FAKE:0" in message


def test_what_has_no_kernel_on_the_accelerator_runs_beside_it(session, x):
    y = raw_ops.TestOnlyFake(x=raw_ops.TestOnlyCpu(x=x * 2.0) + 1.0) - 1.0
    assert session.run(y, {x: [1, 2]}).tolist() == [2, 4]


def test_variables_go_where_all_their_users_can_be(session):
    """An op that only the CPU has keeps its variable there, in whatever step it is."""
    v = hf.Variable(0, name="v")
    count = v.count_up_to(2)
    session.run(v.initializer)
    assert [session.run(count) for _ in range(2)] == [0, 1]
    with pytest.raises(errors.OutOfRangeError):
        session.run(count)


def test_a_variable_that_an_earlier_step_has_put_elsewhere(session):
    v = hf.Variable(0, name="v")
    session.run(v.initializer)
    count = v.count_up_to(2)
    message = failure(session, count)
    assert "CountUpTo" in message
    assert f"{PREFIX}FAKE:0" in message
    moved = v.assign_add(1)
    moved.op._set_device("/cpu:0")
    assert "an earlier step of this session put it on" in failure(session, moved.op)


# ---------------------------------------------------------------- the placer by itself


def placer(*names, default="/job:worker/task:0", **options):
    infos = [DeviceInfo(n, n.rpartition("device:")[2].partition(":")[0]) for n in names]
    return Placer(infos, default, **options)


def place(graph, placer, fetches, remembered=None):
    from hpcflow import kernels
    from hpcflow.compiler.rewrite.prune import prune

    kernels.load()
    client = placer.devices[0].name
    step: StepGraph = prune(fetches, [], client)
    placer.place(step, remembered)
    return {n.name: n.device for n in step.nodes}


WORKER0, WORKER1 = (f"/job:worker/replica:0/task:{i}/device:CPU:0" for i in (0, 1))
PS0, PS1 = (f"/job:ps/replica:0/task:{i}/device:CPU:0" for i in (0, 1))


def test_partial_names(graph):
    names = {}
    for device in ("", "/job:ps", "/job:ps/task:1", "/task:1", "/job:worker", "/cpu:0",
                   "/job:ps/replica:0/task:0/device:CPU:0"):
        with hf.device(device):
            op = hf.placeholder(hf.float32).op
            names[op.name] = device
    found = place(graph, placer(WORKER0, WORKER1, PS0, PS1),
                  [graph.get_operation_by_name(n) for n in names])
    assert {names[n]: d for n, d in found.items() if n in names} == {
        "": WORKER0, "/job:ps": PS0, "/job:ps/task:1": PS1, "/task:1": WORKER1,
        "/job:worker": WORKER0, "/cpu:0": WORKER0, "/job:ps/replica:0/task:0/device:CPU:0": PS0}


def test_updates_follow_their_variables(graph):
    with hf.device("/job:ps/task:1"):
        v = hf.Variable(1.0, name="v")
    with hf.device("/job:worker"):
        update = v.assign_add(2.0)
    found = place(graph, placer(WORKER0, PS0, PS1, soft=True), [update.op])
    assert found[update.op.name] == found["v"] == PS1


def test_state_is_remembered_by_name(graph):
    v = hf.Variable(1.0, name="v")
    remembered = {"v": PS0}
    found = place(graph, placer(WORKER0, PS0), [v.initializer], remembered)
    assert found["v"] == found["v/Assign"] == PS0
    assert remembered == {"v": PS0}


def test_soft_placement_stays_on_the_task(graph):
    with hf.device("/job:ps/task:1/gpu:3"):
        a = hf.placeholder(hf.float32, name="a")
    assert place(graph, placer(WORKER0, PS0, PS1, soft=True), [a.op])["a"] == PS1
    with pytest.raises(errors.InvalidArgumentError, match="no such device is available"):
        place(graph, placer(WORKER0, PS0, PS1), [a.op])


def test_colocation_merges_partial_constraints(graph):
    with hf.device("/job:ps"):
        a = hf.placeholder(hf.float32, [], name="a")
    b = hf.negative(a, name="b")
    b.op._set_device("/task:1")
    b.op._attrs["_class"] = [b"loc:@a"]
    found = place(graph, placer(WORKER0, PS0, PS1), [b.op])
    assert found["a"] == found["b"] == PS1


@pytest.mark.parametrize("where", ["alone", "folded", "outside"])
@pytest.mark.parametrize("device", ["/job:worker/task:3/gpu:9", "/cpu:7"])
def test_devices_that_do_not_exist_are_noticed(graph, where, device):
    with hf.device(device):
        c = hf.constant(1.0, name="here")
    fetch = {"alone": c, "folded": c + 2.0, "outside": hf.constant(3.0)}[where]
    with hf.Session() as session, pytest.raises(
            hf.errors.InvalidArgumentError, match=f"'here'.*{device[-1]}'; no such device"):
        session.run(fetch)
    soft = hf.Session(config=hf.ConfigProto(allow_soft_placement=True))
    if device == "/cpu:7":
        assert soft.run(fetch) in (1, 3)
    else:
        with pytest.raises(hf.errors.InvalidArgumentError, match="no such device"):
            soft.run(fetch)


@pytest.mark.parametrize("where", ["folded", "outside"])
def test_colocation_with_two_devices_is_noticed(graph, where):
    with hf.device("/cpu:0"):
        a = hf.Variable(1.0, use_resource=False)
    with hf.device("/cpu:1"):
        b = hf.Variable(1.0, use_resource=False)
    with hf.colocate_with(a), hf.colocate_with(b):
        c = hf.constant(3.0)
    fetch = c + 1 if where == "folded" else hf.constant(1.0)
    with hf.Session(config=hf.ConfigProto(device_count={"CPU": 2})) as session, pytest.raises(
            hf.errors.InvalidArgumentError, match="Cannot colocate nodes"):
        session.run(fetch)
