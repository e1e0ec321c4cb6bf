"""The compiler's passes one by one: from graphs to nodes, without running anything."""

from __future__ import annotations

import async_ops
import numpy as np
import pytest
from async_ops import later
from raw_control_flow import branches, loop, switch

import hpcflow as hf
from hpcflow import errors, kernels, raw_ops
from hpcflow.compiler.distribute.partition import partition
from hpcflow.compiler.distribute.place import DeviceInfo, Placer
from hpcflow.compiler.distribute.schedule import schedule
from hpcflow.compiler.ir import checks
from hpcflow.compiler.ir.frames import FrameInfo, assign_frames
from hpcflow.compiler.ir.step_graph import topological, writes_state
from hpcflow.compiler.regions.regions import assign_regions
from hpcflow.compiler.rewrite.cse import eliminate_common_subexpressions, merge_placed
from hpcflow.compiler.rewrite.dead_code import drop_unread
from hpcflow.compiler.rewrite.fold import fold_constants
from hpcflow.compiler.rewrite.prune import prune
from hpcflow.compiler.rewrite.reads import split_reads
from hpcflow.kernels.registry import KernelNode, find_kernel

assert async_ops

A0, A1, B0 = ("/job:a/replica:0/task:0/device:CPU:0", "/job:a/replica:0/task:0/device:CPU:1",
              "/job:b/replica:0/task:0/device:CPU:0")


class Host:
    """All of a device that folding needs."""

    xp = np
    resources = None


def instantiate(node, values):
    kernel = find_kernel(node.type, "CPU", node.attrs)
    return kernel.factory(KernelNode(
        node.name, node.type, node.attrs, Host, [s.dtypes[i] for s, i in node.inputs], node.dtypes,
        [s.dims[i] for s, i in node.inputs], node.dims, values))


@pytest.fixture(autouse=True)
def graph():
    kernels.load()
    with hf.Graph().as_default() as graph:
        yield graph


def pruned(fetches, feeds=()):
    step = prune(fetches if isinstance(fetches, list) else [fetches], list(feeds), A0)
    checks.check(step, "prune")
    return step


def placed(fetches, feeds=()):
    step = pruned(fetches, feeds)
    Placer([DeviceInfo(n, "CPU") for n in (A0, A1, B0)], "/job:a").place(step)
    split_reads(step)
    assign_regions(step)
    checks.check(step, "regions")
    return step


def names(step, internal=False):
    return [n.name for n in step.nodes if internal or not n.name.startswith("_")]


def by_name(step):
    return {n.name: n for n in step.nodes}


# ---------------------------------------------------------------- prune


def test_prune_keeps_what_is_needed_in_order():
    a, b = hf.constant(1.0, name="a"), hf.placeholder(hf.float32, name="b")
    c = hf.add(a, b, name="c")
    hf.negative(c, name="unneeded")
    with hf.control_dependencies([hf.no_op(name="first")]):
        d = hf.identity(c, name="d")
    step = pruned([d, c.op])
    assert names(step, True) == ["a", "b", "c", "first", "d", "_keep/c", "_fetch/d:0",
                                 "_fetch/c"]
    assert [n.attrs["index"] for n in step.fetches] == [0, 1]
    assert [n.type for n in step.fetches] == ["_Fetch", "_FetchOp"]
    assert [c.name for c in by_name(step)["d"].controls] == ["first"]


def test_prune_cuts_at_feeds():
    a = hf.placeholder(hf.float32, [2], name="a")
    b = hf.negative(a, name="b")
    c = hf.add(b, b, name="c")
    step = pruned([c, b], [b])
    assert names(step, True) == ["_feed/b:0", "c", "_fetch/c:0", "_fetch/b:0"]
    (feed,) = step.feeds
    assert by_name(step)["c"].inputs == [(feed, 0), (feed, 0)]
    assert feed.dims == [(2,)]
    assert feed.device == A0


def test_prune_cuts_one_output_of_several():
    parts = raw_ops.Unpack(value=hf.constant([1.0, 2.0]), num=2, name="parts")
    step = pruned([parts[0] + parts[1]], [parts[1]])
    assert "parts" in names(step)
    assert [s.name for s, _ in by_name(step)["add"].inputs] == ["parts", "_feed/parts:1"]


def test_prune_sorts_loops():
    (end,) = loop(lambda i: i < 3, lambda i: [i + 1], [hf.constant(0)])
    step = pruned(end)
    order = {n.name: i for i, n in enumerate(step.nodes)}
    assert order["Enter"] < order["Merge"] < order["Switch"] < order["Exit"]
    assert order["Switch"] < order["NextIteration"]


def test_a_cycle_is_an_error():
    a, b = hf.identity(hf.constant(1.0)), hf.identity(hf.constant(1.0))
    a.op._update_input(0, b)
    b.op._update_input(0, a)
    message = "contains a cycle with 2 nodes, including: Identity, Identity_1$"
    with pytest.raises(hf.errors.InvalidArgumentError, match=message):
        topological(prune([b], [], A0).nodes)


def test_order_of_updates():
    v = hf.Variable(1.0, name="v")
    update = hf.assign_add(v, 1.0, name="update")
    read = hf.identity(v, name="late")
    step = pruned([update.op, read])
    schedule(step.nodes)
    found = [n.name for n in topological(step.nodes)]
    assert found.index("late") < found.index("update")
    assert [n.name for n in step.nodes if writes_state(n)] == ["update"]


# ---------------------------------------------------------------- fold


def folded(fetches, feeds=()):
    step = pruned(fetches, feeds)
    fold_constants(step, instantiate)
    checks.check(step, "fold")
    return step


def test_fold():
    x = hf.placeholder(hf.float32, name="x")
    two = hf.add(hf.constant(1.0), hf.constant(1.0), name="two")
    three = hf.add(two, hf.constant(1.0), name="three")
    step = folded(hf.multiply(x, three, name="y"))
    assert names(step) == ["x", "three", "y"]
    node = by_name(step)["three"]
    assert node.type == "Const"
    assert node.attrs["value"] == 3
    assert not node.attrs["value"].flags.writeable


def test_fold_several_outputs():
    parts = raw_ops.Unpack(value=hf.constant([1.0, 2.0]), num=2, name="parts")
    x = hf.placeholder(hf.float32, name="x")
    step = folded([parts[1] * x, parts[0].op])
    product = by_name(step)["mul"]
    constant = product.inputs[0][0]
    assert constant.type == "Const"
    assert constant.attrs["value"] == 2
    assert all(n.type != "Unpack" for n in step.nodes)


def test_not_folded():
    random = hf.random_uniform([2], name="random")
    default = hf.placeholder_with_default(1.0, [], name="default")
    bad = hf.floordiv(hf.constant(1), hf.constant(0), name="bad")
    large = raw_ops.Fill(dims=hf.constant([1 << 20]), value=hf.constant(0.0), name="large")
    with hf.control_dependencies([random]):
        waits = hf.negative(hf.constant(1.0), name="waits")
    step = folded([random, default + 1.0, bad, large, waits])
    types = {n.name: n.type for n in step.nodes}
    assert types["default"] == "PlaceholderWithDefault"
    assert types["bad"] == "FloorDiv"
    assert types["large"] == "Fill"
    assert types["waits"] == "Neg"
    assert types[random.op.name] != "Const"


def test_fold_static_shapes():
    x = hf.placeholder(hf.float32, [2, 3], name="x")
    y = hf.placeholder(hf.float32, [None, 3], name="y")
    fetches = [raw_ops.Shape(input=x, name="known"), raw_ops.Size(input=x, name="size"),
               raw_ops.Rank(input=y, name="rank"), raw_ops.Shape(input=y, name="open")]
    step = folded(fetches)
    values = {n.name: n.attrs["value"].tolist() for n in step.nodes if n.type == "Const"}
    assert values == {"known": [2, 3], "size": 6, "rank": 2}
    assert "x" not in names(step)


def test_fold_leaves_branches_alone():
    p = hf.placeholder(hf.bool, [], name="p")
    x = hf.placeholder(hf.float32, [2], name="x")
    _, true = switch(x, p)
    merged, _ = raw_ops.Merge(inputs=[raw_ops.Shape(input=-true, name="inside")])
    types = {n.name: n.type for n in folded([merged, raw_ops.Shape(input=x, name="out")]).nodes}
    assert types["inside"] == "Shape"
    assert types["out"] == "Const"


def test_fold_of_a_fed_constant():
    c = hf.constant(2.0, name="c")
    step = folded(hf.add(c, c, name="sum"), [c])
    assert by_name(step)["sum"].type == "Add"


# ---------------------------------------------------------------- cse


def merged(fetches):
    step = pruned(fetches)
    eliminate_common_subexpressions(step)
    checks.check(step, "cse")
    return step


def test_cse():
    x = hf.placeholder(hf.float32, [2, 2], name="x")
    y = hf.placeholder(hf.float32, [2, 2], name="y")
    same = [hf.multiply(x, y), hf.multiply(y, x), hf.multiply(x, y)]  # it commutes
    different = [hf.subtract(x, y), hf.subtract(y, x), hf.matmul(x, y),
                 hf.matmul(x, y, transpose_a=True)]
    step = merged([s + 2.0 for s in same] + different)
    types = [n.type for n in step.nodes]
    assert types.count("Add") == types.count("Mul") == 1
    assert types.count("Sub") == types.count("MatMul") == 2
    assert types.count("Const") == 1


def test_cse_of_what_was_placed():
    """Nodes that only lie with different ones are merged, but not before devices are known."""
    x = hf.placeholder(hf.int32, [4], name="x")
    devices = ("/cpu:0", "/cpu:0", "/cpu:1")
    variables = [hf.Variable(np.zeros(2, np.float32), name=f"v{i}") for i in range(3)]
    uniques = []
    for variable, device in zip(variables, devices):
        with hf.colocate_with(variable._ref()), hf.device(device):
            uniques.append(hf.unique(x).y)
    step = merged([hf.negative(u) for u in uniques])
    assert [n.type for n in step.nodes].count("Unique") == 3
    for node in step.nodes:
        if node.type in ("Unique", "Neg"):
            node.device = A1 if node.name.endswith("_2") else A0
    merge_placed(step)
    checks.check(step, "cse of placed")
    types = [n.type for n in step.nodes]
    assert types.count("Unique") == types.count("Neg") == 2


def test_cse_keeps_apart_what_is_not_the_same():
    x = hf.placeholder(hf.float32, [2], name="x")
    with hf.control_dependencies([hf.no_op()]):
        waits = hf.negative(x)
    with hf.device("/cpu:1"):
        elsewhere = hf.negative(x)
    randoms = [hf.random_uniform([2]), hf.random_uniform([2])]
    ints = [hf.cast(x, hf.int32), hf.cast(x, hf.int64)]
    big = np.zeros(1000, np.float32)
    constants = [hf.constant(big), hf.constant(big), hf.constant(1.0), hf.constant(1, hf.float64)]
    step = merged([hf.negative(x), waits, elsewhere, *randoms, *ints, *constants])
    types = [n.type for n in step.nodes]
    assert types.count("Neg") == 3
    assert types.count("RandomUniform") == 2
    assert types.count("Cast") == 2


def test_cse_keeps_reads_around_an_update_apart():
    v = hf.Variable(1.0, name="v")
    before = hf.identity(v._ref())
    with hf.control_dependencies([v.assign_add(1.0)]):
        after = hf.identity(v._ref())
    step = merged([before, after])
    assert [n.type for n in step.nodes].count("Identity") == 2


# ---------------------------------------------------------------- unused


def test_values_that_are_only_waited_for():
    x = hf.placeholder(hf.float32, [2], name="x")
    v = hf.Variable([1.0, 2.0], name="v")
    with hf.control_dependencies([v.assign_add(x).op]):
        sums = hf.reduce_sum(x, name="sums")
    with hf.control_dependencies([sums]):
        end = hf.no_op(name="end")
    step = pruned(end)
    drop_unread(step)
    checks.check(step, "unused")
    assert "sums" not in names(step)
    assert "AssignAdd" in [c.name for c in by_name(step)["end"].controls]


# ---------------------------------------------------------------- reads


def test_reads_happen_where_the_variable_is():
    with hf.device("/job:b"):
        v = hf.Variable([1.0], name="v")
        update = hf.assign_add(v, [1.0], name="update")
    with hf.control_dependencies([update]), hf.device("/job:a"):
        late = hf.negative(v._ref(), name="late")
        later_too = hf.square(v._ref(), name="later")
    with hf.device("/job:a"):
        early = hf.negative(v._ref(), name="early")
    step = placed([late, later_too, early])
    reads = [n for n in step.nodes if n.name.endswith("/_read_0")]
    assert len(reads) == 2
    assert all(n.device == B0 for n in reads)
    nodes = by_name(step)
    assert nodes["late"].inputs == nodes["later"].inputs
    assert [c.name for c in nodes["late"].inputs[0][0].controls] == ["update"]
    assert nodes["early"].inputs[0][0].controls == []


# ---------------------------------------------------------------- regions


def regions(step):
    """Node name -> region, of the user's nodes."""
    return {n.name: n.region for n in step.nodes if not n.name.startswith("_")}


def test_one_device_is_one_region():
    x = hf.placeholder_with_default([1.0], [1], name="x")
    v = hf.Variable([1.0], name="v")
    found = regions(placed([v.assign_add(x * 2.0).op, hf.exp(x)]))
    assert len(set(found.values())) == 1


def test_there_and_back_are_two_regions():
    a = hf.random_uniform([2], name="a")
    with hf.device("/cpu:1"):
        b = hf.negative(a, name="b")
    c = hf.add(a, b, name="c")
    d = hf.square(a, name="d")
    found = regions(placed([c, d]))
    assert found[a.op.name] == found["d"]
    assert len({found["d"], found["b"], found["c"]}) == 3


def test_asynchronous_ancestors_tell_regions_apart():
    x = hf.placeholder_with_default(1, [], name="x")
    before = hf.add(x, 1, name="before")
    slow = later(before)
    beside = hf.add(x, 2, name="beside")
    after = hf.add(slow, beside, name="after")
    after_two = hf.add(later(beside), after, name="after_two")
    found = regions(placed([after, after_two]))
    assert found["before"] == found["beside"]
    assert len({found["before"], found["after"], found["after_two"]}) == 3


def test_branches_are_regions_of_their_own():
    p = hf.placeholder_with_default(True, [], name="p")
    x = hf.placeholder_with_default(1.0, [], name="x")
    false, true = switch(x, p)
    one, two = hf.negative(true, name="one"), hf.exp(true, name="two")
    other = hf.negative(false, name="other")
    with hf.control_dependencies([true.op]):
        alive = hf.random_uniform([], name="alive")
    merged_value, _ = raw_ops.Merge(inputs=[one, other])
    survives = hf.negative(merged_value, name="survives")
    dies = hf.add(merged_value, two, name="dies")
    found = regions(placed([survives, dies, alive]))
    assert found["one"] == found["two"]
    names_apart = ["one", "other", alive.op.name, "survives", "dies"]
    assert len({found[n] for n in names_apart}) == 5


def test_the_graph_of_regions_has_no_cycle():
    """On random graphs over devices and asynchronous kernels."""
    random = np.random.RandomState(3)
    for _ in range(60):
        with hf.Graph().as_default():
            values = [hf.placeholder_with_default(1.0, [])]
            for _ in range(25):
                a, b = (values[i] for i in random.randint(0, len(values), 2))
                with hf.device(["/job:a/cpu:0", "/job:a/cpu:1", "/job:b"][random.randint(3)]):
                    kind = random.randint(5)
                    made = later(a) if kind == 0 else a + b
                    if kind == 1:
                        made = branches(a > b, a, hf.negative, hf.exp)
                values.append(made)
            step = placed(values[-5:])
            edges = {(s.region, n.region) for n in step.nodes
                     for s in [*(s for s, _ in n.inputs), *n.controls]
                     if s.region != n.region and not s.is_const}
            assert _acyclic(edges)


def _acyclic(edges):
    while edges:
        targets = {b for _, b in edges}
        free = {a for a, _ in edges} - targets
        if not free:
            return False
        edges = {(a, b) for a, b in edges if a not in free}
    return True


# ---------------------------------------------------------------- partition


def test_one_edge_per_tensor_and_destination():
    x = hf.random_uniform([2], name="x")
    with hf.device("/job:b"):
        a, b = hf.negative(x, name="a"), hf.exp(x, name="b")
    with hf.device("/job:a/cpu:1"):
        c = hf.negative(x, name="c")
    parts = partition(placed([a, b, c]))
    here, there = parts["/job:a/replica:0/task:0"], parts["/job:b/replica:0/task:0"]
    edges = {n.attrs["tensor_name"] for n in here if n.type == "_Send"}
    assert edges == {
        f"{x.name};{A0};{B0}".encode(), f"{x.name};{A0};{A1}".encode(),
        f"c:0;{A1};{A0}".encode()}
    assert [n.type for n in there].count("_Recv") == 1
    assert [n.type for n in there].count("_Send") == 2
    local = next(n for n in here if n.type == "_Recv" and n.device == A1)
    assert [s.type for s, _ in local.inputs] == ["_Send"]
    remote = next(n for n in there if n.type == "_Recv")
    assert remote.inputs == []


def test_constants_are_copied():
    c = hf.constant([1.0, 2.0], name="c")
    with hf.device("/job:b"):
        y = hf.add(c, hf.random_uniform([2]), name="y")
    there = partition(placed(y))["/job:b/replica:0/task:0"]
    assert [n.device for n in there if n.name == "c"] == [B0]
    assert not any(n.type == "_Recv" for n in there)


def test_control_edges_between_devices():
    with hf.device("/job:b"):
        first = hf.no_op(name="first")
    with hf.control_dependencies([first]):
        one, two = hf.no_op(name="one"), hf.no_op(name="two")
    parts = partition(placed([one, two]))
    here, there = parts["/job:a/replica:0/task:0"], parts["/job:b/replica:0/task:0"]
    assert [n.type for n in here].count("_RecvControl") == 1
    assert [n.type for n in there].count("_SendControl") == 1


@pytest.mark.parametrize("size, edges", [(2, ["_Recv"]), (1 << 20, ["_Recv", "_RecvControl"])])
def test_a_value_that_comes_anyway_is_waited_for_unless_it_is_large(size, edges):
    with hf.device("/job:b"):
        x = hf.random_uniform([size], name="x")
    with hf.control_dependencies([x]):
        waits = hf.no_op(name="waits")
    parts = partition(placed([waits, hf.negative(x)]))
    here = parts["/job:a/replica:0/task:0"]
    assert sorted(n.type for n in here if n.type.startswith("_Recv")) == edges
    (control,) = next(n for n in here if n.name == "waits").controls
    assert control.type == edges[-1]


def test_one_live_output_of_a_switch_does_not_stand_for_the_other():
    with hf.device("/job:b"):
        flag = hf.random_uniform([]) > 0.5
        left, right = raw_ops.Switch(data=hf.random_uniform([]), pred=flag, name="choice")
    with hf.control_dependencies([right.op]):
        waits = hf.no_op(name="waits")
    with hf.device("/job:a"):
        read = hf.negative(left)
    here = partition(placed([waits, read]))["/job:a/replica:0/task:0"]
    (control,) = next(n for n in here if n.name == "waits").controls
    assert control.type == "_RecvControl"


def test_sends_leave_with_their_values():
    x = hf.random_uniform([2], name="x")
    slow = later(x)
    with hf.device("/job:b"):
        a, b = hf.negative(x, name="a"), hf.negative(slow, name="b")
    here = partition(placed([a, b]))["/job:a/replica:0/task:0"]
    nodes = {n.name: n for n in here}
    assert nodes[f"{x.op.name}/_send_0"].region == nodes[x.op.name].region
    assert nodes["TestLater/_send_0"].region != nodes["TestLater"].region


def test_handles_do_not_travel():
    with hf.device("/job:b"):
        handle = raw_ops.VarHandleOp(dtype=hf.float32, shape=[], name="handle")
    with hf.device("/job:a"):
        value = raw_ops.ReadVariableOp(resource=handle, dtype=hf.float32, name="value")
    value.op._set_device("/job:a")
    with pytest.raises(errors.InvalidArgumentError, match="resource handle cannot leave"):
        partition(placed(value))


# ---------------------------------------------------------------- frames


def test_frames():
    n = hf.placeholder_with_default(3, [], name="n")

    def body(i, k):
        (inner,) = loop(lambda j, m: j < m, lambda j, m: [hf.add(j, 1, name="deep")],
                        [hf.identity(i, name="start")], (k,), name="inner")
        return [inner + 1]

    (end,) = loop(lambda i, k: i < k, body, [hf.constant(0)], (n,), name="outer")
    step = pruned(end + 1)
    root = FrameInfo("", None)
    frames = assign_frames(step.nodes, root, lambda node: node.is_const)
    found = {node.name: frame.name for node, frame in frames.items()}
    assert found["n"] == ""
    assert found["start"] == "outer"
    assert found["deep"] == "inner"
    inner = next(f for node, f in frames.items() if node.name == "deep")
    assert inner.parent.name == "outer"
    assert inner.depth == 2
    assert inner.parent.parent is root


# ---------------------------------------------------------------- checks


def test_broken_passes_are_found():
    step = pruned(hf.negative(hf.placeholder(hf.float32, name="x"), name="y"))
    nodes = by_name(step)
    step.nodes.remove(nodes["x"])
    with pytest.raises(errors.InternalError, match=r"After test: .*y.* depends on .*x.*not part"):
        checks.check(step, "test")
    step.nodes.append(nodes["x"])
    with pytest.raises(errors.InternalError, match="comes before"):
        checks.check(step, "test")
    step.nodes.insert(0, step.nodes.pop())
    checks.check(step, "test")
    nodes["y"].inputs = [(nodes["x"], 3)]
    with pytest.raises(errors.InternalError, match="reads output 3"):
        checks.check(step, "test")
    with pytest.raises(errors.InternalError, match="has no device"):
        checks.check(pruned(hf.placeholder(hf.float32)), "place")
