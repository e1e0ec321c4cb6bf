"""Several devices in one step: values and control edges cross between them, placement."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

PREFIX = "/job:localhost/replica:0/task:0/device:"


def cpus(count=3, **options):
    return hf.Session(config=hf.ConfigProto(device_count={"CPU": count}, **options))


def placement(fetches, capsys, **options):
    """Operation name -> device, as a session with log_device_placement prints it."""
    with cpus(log_device_placement=True, **options) as session:
        session.run(fetches)
    lines = [line for line in capsys.readouterr().out.splitlines() if PREFIX in line]
    return {line.split(":")[0]: line.rpartition(PREFIX)[2] for line in lines}


# ---------------------------------------------------------------- crossing


def test_there_and_back_again(form, graph, checked):
    x = hf.placeholder(hf.float32, [2])
    with hf.device("/cpu:0"):
        a = x + 1.0
    with hf.device("/cpu:1"):
        b = a * 10.0
    with hf.device("/cpu:0"):
        c = a + b
    with hf.device("/cpu:2"):
        d = c - b
    with cpus() as session:
        for _ in range(3):
            values = session.run([c, d, b, a], {x: [0, 1]})
            assert [v.tolist() for v in values] == [[11, 22], [1, 2], [10, 20], [1, 2]]
            assert session.run(d, {x: [0, 1]}).tolist() == [1, 2]
            assert session.run(d, {a: [0, 1]}).tolist() == [0, 1]


def test_many_edges_both_ways(form, graph, checked):
    x = hf.placeholder(hf.float32, [4])
    values = [x]
    for i in range(30):
        with hf.device(f"/cpu:{i % 3}"):
            values.append(values[-1] * 0.5 + values[i // 2])
    expected = [np.ones(4, np.float32)]
    for i in range(30):
        expected.append(expected[-1] * np.float32(0.5) + expected[i // 2])
    with cpus() as session:
        for got, want in zip(session.run(values, {x: np.ones(4)}), expected):
            np.testing.assert_array_equal(got, want)


def test_control_edges_across_devices(form, graph, checked):
    with hf.device("/cpu:0"):
        v = hf.Variable(1)
    with hf.device("/cpu:1"):
        w = hf.Variable(10)
    with hf.control_dependencies([v.assign_add(1)]), hf.device("/cpu:1"):
        bump = w.assign(w.read_value() * 2)
    with hf.control_dependencies([bump]), hf.device("/cpu:0"):
        again = v.assign(v.read_value() * 5)
    with hf.control_dependencies([again]), hf.device("/cpu:2"):
        end = hf.constant(7)
    with cpus() as session:
        session.run(hf.global_variables_initializer())
        assert session.run(end) == 7
        assert session.run([v, w]) == [10, 20]
        assert session.run([again.op, end]) == [None, 7]
        assert session.run([v, w]) == [55, 40]


def test_constants_and_strings_on_several_devices(form, graph):
    c = hf.constant([1.0, 2.0])
    s = hf.constant(["a", "b"])
    results = []
    for i in range(3):
        with hf.device(f"/cpu:{i}"):
            results += [c + float(i), hf.identity(s)]
    with cpus() as session:
        values = session.run(results)
    assert values[4].tolist() == [3, 4]
    assert values[5].tolist() == [b"a", b"b"]


def test_variables_read_from_another_device(form, graph):
    with hf.device("/cpu:1"):
        v = hf.Variable([1.0, 2.0])
        update = v.assign_add([1.0, 1.0])
    with hf.device("/cpu:2"):
        total = hf.reduce_sum(v)
        with hf.control_dependencies([update]):
            later = hf.reduce_sum(v.read_value())
    with cpus() as session:
        session.run(v.initializer)
        before = session.run(v)
        assert session.run(total) == 3
        assert session.run(later) == 5
        assert before.tolist() == [1, 2]
        assert session.run([later, update.op]) == [7, None]


def test_an_error_on_another_device(form, graph):
    x = hf.placeholder(hf.int32, [])
    with hf.device("/cpu:1"):
        bad = hf.floordiv(10, x, name="divide")
    good = hf.constant(5) + x
    with cpus() as session:
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"'divide'.*device:CPU:1"):
            session.run([good, bad], {x: 0})
        assert session.run([good, bad], {x: 2}) == [7, 5]


# ---------------------------------------------------------------- placement


def test_default_and_requested_devices(graph, capsys):
    a = hf.constant(1.0, name="a")
    with hf.device("/cpu:2"):
        b = hf.add(a, 1.0, name="b")
    with hf.device("/device:CPU:*"):
        c = hf.negative(b, name="c")
    with hf.device("/job:localhost/task:0/cpu:1"):
        d = hf.negative(c, name="d")
    where = placement(d, capsys, graph_options=hf.GraphOptions(
        optimizer_options=hf.OptimizerOptions(opt_level=-1)))
    assert where["b"] == "CPU:2"
    assert where["c"] == "CPU:0"
    assert where["d"] == "CPU:1"


def test_log_names_types(graph, capsys):
    with cpus(log_device_placement=True) as session:
        session.run(hf.random_uniform([2], name="one"))
    assert f"one/RandomUniform: (RandomUniform): {PREFIX}CPU:0" in capsys.readouterr().out


def test_the_log_has_what_becomes_constant(graph, capsys):
    x = hf.placeholder(hf.float32, [], name="x")
    with hf.device("/cpu:1"):
        a = hf.constant(1.0, name="a")
        b = hf.constant(2.0, name="b")
    with hf.device("/cpu:2"):
        c = hf.add(a, b, name="c")
    taken = hf.cond(hf.constant(True, name="pred"), lambda: hf.negative(c, name="yes"),
                    lambda: hf.square(c, name="no"))
    y = hf.multiply(hf.identity(taken, name="same"), x, name="y")
    with cpus(log_device_placement=True) as session:
        assert session.run(y, {x: 2.0}) == -6.0
        lines = capsys.readouterr().out.splitlines()
        assert session.run(y, {x: 3.0}) == -9.0
        assert session.run(c) == 3.0
    wanted = ["x: (Placeholder): CPU:0", "a: (Const): CPU:1", "b: (Const): CPU:1",
              "c: (Add): CPU:2", "same: (Identity): CPU:0", "y: (Mul): CPU:0",
              "cond/yes: (Neg): CPU:0", "cond/no: (Square): CPU:0"]
    for line in wanted:
        name, device = line.rsplit(" ", 1)
        assert lines.count(f"{name} {PREFIX}{device}") == 1, lines
    assert len(lines) == len({line.split(":")[0] for line in lines})
    later = capsys.readouterr().out.splitlines()  # of the step for c alone
    assert later == [f"a: (Const): {PREFIX}CPU:1", f"b: (Const): {PREFIX}CPU:1",
                     f"c: (Add): {PREFIX}CPU:2"]


def test_the_log_changes_nothing(graph, capsys):
    """A branch that no device can run is an error, dead or not and logged or not."""
    def build():
        with hf.device("/cpu:7"):
            return hf.square(2.0, name="nowhere")

    y = hf.cond(hf.constant(True), lambda: hf.constant(1.0), build)
    for options in {}, {"log_device_placement": True}:
        with cpus(**options) as session, pytest.raises(
                hf.errors.InvalidArgumentError, match=r"nowhere.*no such device"):
            session.run(y)
    assert "nowhere" not in capsys.readouterr().out


def test_colocation(graph, capsys):
    with hf.device("/cpu:1"):
        v = hf.Variable([1.0], name="v")
    with hf.colocate_with(v.op):
        near = hf.multiply(v, 2.0, name="near")
    with hf.colocate_with(near.op), hf.device("/cpu:2"):
        nearer = hf.negative(near, name="nearer")
    where = placement([v.initializer], capsys)
    assert {where[k] for k in ("v", "v/Assign")} == {"CPU:1"}
    with cpus(log_device_placement=True) as session:
        session.run(v.initializer)
        session.run(nearer)
    out = capsys.readouterr().out
    assert f"near: (Mul): {PREFIX}CPU:1" in out


def test_colocated_with_what_is_not_part_of_the_step(graph, capsys):
    with hf.device("/cpu:2"):
        anchor = hf.constant(1.0, name="anchor")
    free = hf.placeholder(hf.float32, [], name="free")
    with hf.colocate_with(free.op):
        one = hf.add(hf.constant(1.0), 1.0, name="one")
    with hf.colocate_with(free.op), hf.colocate_with(anchor.op):
        two = hf.add(hf.constant(3.0), 1.0, name="two")
    where = placement([one, two], capsys, graph_options=hf.GraphOptions(
        optimizer_options=hf.OptimizerOptions(opt_level=-1)))
    assert where["one"] == where["two"] == "CPU:2"


def test_state_stays_where_an_earlier_step_put_it(graph):
    v = hf.Variable(1.0, name="v")
    with cpus() as session:
        session.run(v.initializer)
        with hf.device("/cpu:1"):
            twice = v * 2.0
        assert session.run(twice) == 2
        session.run(v.assign(5.0))
        assert session.run(twice) == 10


def test_unknown_devices(graph):
    for device, words in [("/cpu:7", "/device:CPU:7"), ("/gpu:0", "/device:GPU:0"),
                          ("/job:ps/task:3", "/job:ps/task:3"), ("/device:TPU:0", "TPU")]:
        with hf.device(device):
            x = hf.add(hf.constant(1.0), 1.0, name="x")
        with cpus(2) as session:
            with pytest.raises(hf.errors.InvalidArgumentError) as caught:
                session.run(x)
        message = str(caught.value)
        assert f"Cannot assign a device to node '{x.op.name}'" in message
        assert words in message
        assert f"Available devices: {PREFIX}CPU:0, {PREFIX}CPU:1" in message
        assert "test_session_devices.py" in message
        assert caught.value.op is x.op


def test_soft_placement_takes_what_exists(form, graph):
    with hf.device("/gpu:3"):
        v = hf.Variable([1.0, 2.0])
        y = v * 2.0
    with hf.device("/cpu:9"):
        z = y + 1.0
    with cpus(2, allow_soft_placement=True) as session:
        session.run(v.initializer)
        assert session.run(z).tolist() == [3, 5]


def test_soft_placement_does_not_invent_tasks(graph):
    with hf.device("/job:ps/task:0/gpu:0"):
        x = hf.constant(1.0) + 1.0
    with cpus(1, allow_soft_placement=True) as session:
        with pytest.raises(hf.errors.InvalidArgumentError, match="no such device"):
            session.run(x)


def test_contradicting_colocation(graph):
    with hf.device("/cpu:0"):
        a = hf.random_uniform([], name="a")
    with hf.colocate_with(a.op):
        b = hf.negative(a, name="b")
    b.op._set_device("/cpu:1")
    with cpus(2) as session:
        with pytest.raises(hf.errors.InvalidArgumentError, match=(
                r"(?i)Cannot colocate nodes '(a|b).*' and '(a|b).*'.*CPU:[01].*CPU:[01].*device "
                "index.*colocation group")):
            session.run(b)
    with cpus(2, allow_soft_placement=True) as session:
        assert -1 < session.run(b) <= 0
