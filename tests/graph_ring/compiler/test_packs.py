"""Values that go to another task in one message: which, and what that makes one region there."""

from __future__ import annotations

import pytest

import hpcflow as hf
from hpcflow import kernels
from hpcflow.compiler.distribute.partition import partition
from hpcflow.compiler.distribute.place import DeviceInfo, Placer
from hpcflow.compiler.regions.regions import assign_regions
from hpcflow.compiler.rewrite.prune import prune
from hpcflow.compiler.rewrite.reads import split_reads
from hpcflow.host import tuning

HERE, THERE = "/job:a/replica:0/task:0/device:CPU:0", "/job:b/replica:0/task:0/device:CPU:0"


@pytest.fixture(autouse=True)
def graph():
    kernels.load()
    with hf.Graph().as_default() as graph:
        yield graph


def parts_of(fetches, feeds=(), packs=True):
    """Task letter -> its nodes."""
    step = prune(fetches, list(feeds), HERE)
    Placer([DeviceInfo(name, "CPU") for name in (HERE, THERE)], "/job:a").place(step)
    split_reads(step)
    assign_regions(step, packs)
    return {task[5]: nodes for task, nodes in partition(step).items()}


def packs_of(nodes, kind="_Recv"):
    """Name of the tensor -> its pack, of the edges in a part."""
    return {n.attrs["tensor_name"].decode().split(":")[0].split("/")[0]: n.attrs.get("pack")
            for n in nodes if n.type == kind}


def doubled(values):
    """Each value twice as large, at the other task."""
    with hf.device(HERE):
        return [v * 2.0 for v in values]


def test_what_leaves_together_goes_together():
    with hf.device(THERE):
        a, b = hf.random_uniform([10], name="a"), hf.random_uniform([3, 2], name="b")
    parts = parts_of(doubled([a, b]))
    got = packs_of(parts["a"])
    assert got == packs_of(parts["b"], "_Send")
    assert got == {"a": 0, "b": 0}
    products = {n.region for n in parts["a"] if n.type == "Mul"}
    assert len(products) == 1


def test_without_packs_each_value_is_an_event():
    with hf.device(THERE):
        a, b = hf.random_uniform([10], name="a"), hf.random_uniform([3, 2], name="b")
    parts = parts_of(doubled([a, b]), packs=False)
    assert packs_of(parts["a"]) == {"a": None, "b": None}
    assert len({n.region for n in parts["a"] if n.type == "Mul"}) == 2


def test_a_value_that_is_alone_has_no_pack():
    with hf.device(THERE):
        a = hf.random_uniform([10], name="a")
    assert packs_of(parts_of(doubled([a]))["a"]) == {"a": None}


def test_open_shapes_strings_and_long_values_go_alone():
    x = hf.placeholder(hf.float32, [None])
    with hf.device(THERE):
        opened = hf.identity(hf.negative(x), name="opened")
        text = hf.as_string(hf.random_uniform([2]), name="text")
        long = hf.random_uniform([tuning.compiler.PACK_MOST_BYTES // 4 + 1], name="long")
        a, b = hf.random_uniform([5], name="a"), hf.random_uniform([], name="b")
    with hf.device(HERE):
        read = [hf.identity(v) for v in (opened, text, long, a, b)]
        fetched = [hf.negative(read[0]), hf.string_to_number(read[1]), *doubled(read[2:])]
    got = packs_of(parts_of(fetched, [x])["a"])
    assert {k: v is not None for k, v in got.items()} == {
        "opened": False, "text": False, "long": False, "a": True, "b": True}


def test_what_comes_early_does_not_wait_for_a_long_computation():
    with hf.device(THERE):
        a = hf.random_uniform([500, 500], name="first")
        c = a
        for i in range(4):
            c = hf.matmul(c, a, name="last" if i == 3 else None)
        few = hf.reduce_sum(a, name="few")
    parts = parts_of(doubled([few, c[:10]]))
    assert set(packs_of(parts["a"]).values()) == {None}


def test_what_waits_for_different_things_goes_apart():
    x, y = hf.placeholder(hf.float32, [4], name="x"), hf.placeholder(hf.float32, [4], name="y")
    with hf.device(HERE):
        far = hf.negative(x, name="far")
    with hf.device(THERE):
        waits = hf.negative(far, name="waits")
        free = hf.random_uniform([4], name="free")
    del y
    parts = parts_of(doubled([waits, free]), [x])
    assert set(packs_of(parts["a"]).values()) == {None}


def test_what_waits_for_a_node_waits_for_its_value():
    """Where one comes anyway: it is the same event, and the same region."""
    with hf.device(THERE):
        a, b = hf.random_uniform([10], name="a"), hf.random_uniform([3, 2], name="b")
    read = doubled([a])[0]
    with hf.device(HERE):
        with hf.control_dependencies([a.op]):
            after = hf.negative(read, name="after")
        other = hf.negative(b, name="other")
    parts = parts_of([after, other])
    regions = {n.name: n.region for n in parts["a"] if n.name in ("after", "other")}
    assert regions["after"] == regions["other"]
    assert [n.type for n in parts["a"]].count("_RecvControl") == 0
