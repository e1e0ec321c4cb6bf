"""The passes that prepare loops over tasks: where their nodes go, and what each task gets."""

from __future__ import annotations

import async_ops
import pytest
from raw_control_flow import loop

import hpcflow as hf
from hpcflow import kernels
from hpcflow.compiler.distribute.loops import spread_loops
from hpcflow.compiler.distribute.partition import partition, task_of
from hpcflow.compiler.distribute.place import DeviceInfo, Placer
from hpcflow.compiler.ir import checks
from hpcflow.compiler.ir.step_graph import ENTER_TYPES, LOOP_GATE
from hpcflow.compiler.regions.regions import assign_regions
from hpcflow.compiler.rewrite.prune import prune
from hpcflow.compiler.rewrite.reads import split_reads

assert async_ops

A0, A1, B0, C0 = (f"/job:{job}/replica:0/task:0/device:CPU:{cpu}"
                  for job, cpu in (("a", 0), ("a", 1), ("b", 0), ("c", 0)))
A, B, C = map(task_of, (A0, B0, C0))


@pytest.fixture(autouse=True)
def graph():
    kernels.load()
    with hf.Graph().as_default() as graph:
        yield graph


def spread(fetches):
    """The step's graph after all passes about placement, with its parts."""
    step = prune(fetches, [], A0)
    Placer([DeviceInfo(n, "CPU") for n in (A0, A1, B0, C0)], "/job:a").place(step, {})
    split_reads(step)
    spread_loops(step)
    checks.check(step, "loops")
    assign_regions(step)
    tokens = {(path[-1], task) for path, task in step.tokens}
    return step, tokens, partition(step)


def gates(parts):
    return {task: n.attrs for task, nodes in parts.items() for n in nodes if n.type == LOOP_GATE}


def edges(parts):
    """What goes from task to task in every iteration."""
    return sorted(n.attrs["tensor_name"].decode().partition(";")[0]
                  for nodes in parts.values() for n in nodes
                  if n.type in ("_Send", "_SendControl") and n.attrs.get("depth"))


def counted(device, body):
    """A loop of the default task over a counter and a variable that `body` computes there."""
    def step(i, a):
        with hf.device(device):
            return i + 1, body(a)

    def both(i, a):
        with hf.device("/job:a"):
            following = i + 1
        return following, step(i, a)[1]

    return hf.while_loop(lambda i, a: i < 5, both, [0, 1.0], name="l")[1]


@pytest.mark.parametrize("device", ["/job:a/cpu:0", "/job:a/cpu:1"])
def test_a_loop_of_one_task_stays_as_it_is(device):
    out = counted(device, lambda a: a * 2.0)
    with hf.device("/job:b"):
        outside = hf.identity(out)
    _, tokens, parts = spread([outside])
    assert not tokens and not gates(parts) and not edges(parts)


def test_each_task_gets_a_token_and_a_gate():
    _, tokens, parts = spread([counted("/job:b", lambda a: a * 2.0)])
    assert tokens == {("l/while_context", A), ("l/while_context", B)}
    found = gates(parts)
    assert set(found) == {A, B}
    assert found[A]["owner"] == found[B]["owner"] == A.encode()
    assert found[A]["followers"] == [B.encode()] and found[B]["followers"] == []


def test_a_variable_stays_where_the_body_computes_it():
    step, _, parts = spread([counted("/job:b", lambda a: a * 2.0)])
    assert edges(parts) == ["l/LoopCond:0"]
    on_b = {n.type for n in step.nodes if n.device == B0}
    assert {"Enter", "Merge", "Switch", "NextIteration", "Exit", "Mul"} <= on_b


@pytest.mark.parametrize("around", ["/job:a", "/job:c"])
def test_also_if_the_whole_loop_is_in_the_scope_of_another(around):
    with hf.device(around):
        out = counted("/job:b", lambda a: a * 2.0)
    _, _, parts = spread([out])
    # The counter is computed on a, the predicate in the scope around.
    wanted = {"/job:a": ["l/LoopCond:0"], "/job:c": ["l/LoopCond:0", "l/LoopCond:0", "l/Merge:0"]}
    assert edges(parts) == wanted[around]


def test_constants_of_the_body_wait_for_the_predicate_that_is_there():
    """Not for a value on another task."""
    _, _, parts = spread([counted("/job:b", lambda a: a * hf.constant(2.0))])
    const = next(n for n in parts[B] if n.type == "Const" and n.controls)
    assert [c.name for c in const.controls] == ["l/while_context/_pivot"]


def test_an_invariant_enters_once_on_each_device_that_reads_it():
    x = hf.identity(hf.random_uniform([3]), name="x")

    def body(i, a):
        for device in ("/job:b", "/job:c"):
            with hf.device(device):
                a = a + hf.reduce_sum(x)
        return i + 1, a

    with hf.device("/job:a"):
        out = hf.while_loop(lambda i, _: i < 5, body, [0, 1.0], name="l")[1]
    step, _, parts = spread([out])
    entered = [n.device for n in step.nodes if n.type in ENTER_TYPES
               and n.inputs[0][0].name.startswith("x/_recv")]
    assert sorted(entered) == [B0, C0]
    assert not [e for e in edges(parts) if "Enter" in e or e == "x:0"]


def test_an_inner_loop_brings_its_tasks_into_the_loops_around():
    def inner(j, b):
        with hf.device("/job:c"):
            return j + 1, b * 3.0

    def body(i, a):
        with hf.device("/job:b"):
            a = hf.while_loop(lambda j, _: j < 2, inner, [0, a], name="inner")[1]
        return i + 1, a

    with hf.device("/job:a"):
        out = hf.while_loop(lambda i, _: i < 2, body, [0, 1.0], name="outer")[1]
    _, tokens, parts = spread([out])
    assert ("outer/while_context", C) in tokens
    assert {t for name, t in tokens if "inner" in name} == {B, C}
    assert len({n.attrs["loop"] for nodes in parts.values() for n in nodes
                if n.type == LOOP_GATE}) == 2


def test_the_token_of_a_loop_in_a_branch_dies_with_it():
    """It waits for a copy of the value on the side that was taken."""
    p = hf.placeholder_with_default(True, [])

    def far():
        return counted("/job:b", lambda a: a * 2.0)

    step, _, _ = spread([hf.cond(p, far, lambda: hf.constant(0.0))])
    token = next(t for (_, task), t in step.tokens.items() if task == B)
    assert token.controls and all(s.type not in ("Switch", "Const") for s in token.controls)


def test_a_loop_of_primitives_keeps_its_variables_together():
    """Enter and NextIteration go to their Merge, Exit to its Switch."""
    def body(i):
        with hf.device("/job:b"):
            return (i + 1,)

    with hf.device("/job:c"):
        out, = loop(lambda i: hf.less(i, 3), body, [hf.constant(0)], name="raw")
    step, _, _ = spread([out])
    merge = next(n for n in step.nodes if n.type == "Merge")
    assert {s.device for s, _ in merge.inputs} == {merge.device}
    leaves = next(n for n in step.nodes if n.type == "Exit")
    assert leaves.device == leaves.inputs[0][0].device
