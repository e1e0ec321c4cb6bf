"""Values that are kept in host memory on a GPU, and those that go there and back."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import config
from hpcflow.graph.raw import raw_ops


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels leave values where they are registered to."""
    monkeypatch.setattr(config.flags, "check_stages", True)


def test_counts_of_a_loop_stay_on_their_side() -> None:
    """The gradient pushes indices and predicates, which are on the host, on stacks."""
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder(hf.float32, [3])

        def body(i: hf.Tensor, total: hf.Tensor) -> tuple[hf.Tensor, hf.Tensor]:
            return i + 1, hf.cond(i < 2, lambda: total * x[i], lambda: total + x[i])

        total = hf.while_loop(lambda i, _: i < 3, body, [0, hf.constant(1.0)])[1]
        gradient = session.run(hf.gradients(total, x)[0], {x: [2.0, 5.0, 7.0]})
    np.testing.assert_array_equal(gradient, [5.0, 2.0, 1.0])


@pytest.mark.parametrize("where", ["merge", "next"])
def test_a_loop_of_primitives_over_two_devices(where: str) -> None:
    """Its value goes back to its merge, wherever the two were asked to be."""
    places = dict.fromkeys(["merge", "next"], "/cpu:0") | {where: "/gpu:0"}
    with hf.Graph().as_default(), hf.device("/cpu:0"), hf.Session() as session:
        first, one, end = (raw_ops.Enter(np.float32(v), "loop", is_constant=v > 0)
                           for v in (0, 1, 10))
        with hf.device(places["merge"]):
            merge = raw_ops.Merge([first, first])[0]
        switch = raw_ops.Switch(merge, raw_ops.LoopCond(merge < end))
        with hf.device(places["next"]):
            back = raw_ops.NextIteration(switch[1] + one)
        merge.op._update_input(1, back)
        assert session.run(raw_ops.Exit(switch[0])) == 10


def test_strings_that_wait_for_an_op() -> None:
    """Are constants of the host, also where all else is on the GPU: the tag of a summary is one."""
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.Variable(0.0)
        with hf.control_dependencies([x.assign_add(1.0)]):
            tag, summary = hf.constant("tag"), hf.summary.scalar("twice", x * 2.0)
        session.run(x.initializer)
        assert session.run(tag) == b"tag"
        assert b"twice" in session.run(summary)
