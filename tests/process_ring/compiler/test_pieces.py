"""Pieces: what runs behind the start of a step or a value from another task, as one call."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.compiler.emit.items import CALL, RECEIVE
from hpcflow.runtime.cluster.distributed_step import DistributedStep

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


@pytest.fixture
def session(form, beside_server):
    return beside_server


def own_part(name):
    """The master's part of the newest step that fetches `name`."""
    # By `type`: a weak proxy, which `isinstance` asks for its class, may stand for nothing.
    steps = [s for s in gc.get_objects()
             if issubclass(type(s), DistributedStep) and name in s.names]
    return max(steps, key=lambda s: s.plan).executable


def null_step(value=1.0):
    """(variable, op): a parameter that is read, halved at the worker and added to."""
    with hf.device(PS):
        parameter = hf.Variable(value, name="parameter")
    with hf.device(WORKER):
        update = parameter * 0.5
    with hf.device(PS):
        return parameter, hf.assign_add(parameter, update)


def test_an_update_over_a_server_in_every_form(session):
    parameter, update = null_step()
    session.run(parameter.initializer)
    assert [float(session.run(update)) for _ in range(3)] == [1.5, 2.25, 3.375]


def test_what_waits_for_one_value_is_its_piece(session, form):
    parameter, update = null_step()
    session.run(parameter.initializer)
    session.run(update.op)
    part = own_part("AssignAdd")
    (edge,) = [i for i in part.items if i.kind == RECEIVE]
    assert (edge.piece is not None) == (form == "compiled")


def test_what_waits_for_two_values_is_in_no_piece(session, form):
    with hf.device(PS):
        a, b = hf.Variable(1.0), hf.Variable(2.0)
    with hf.device(WORKER):
        total = a * 3.0 + b
        alone = a * 5.0
    session.run([a.initializer, b.initializer])
    for _ in range(3):
        assert session.run([total, alone]) == [5.0, 5.0]


def test_feeds_are_there_when_a_step_opens(session, form):
    x, y = hf.placeholder(hf.float32, [2]), hf.placeholder(hf.float32, [])
    with hf.device(WORKER):
        near = x * y
    with hf.device(PS):
        far = hf.reduce_sum(near)
    with hf.device(WORKER):
        back = far + hf.reduce_sum(x)
    values = [float(session.run(back, {x: [1.0, k], y: k})) for k in (2.0, 3.0)]
    assert values == [9.0, 16.0]
    part = own_part(back.name)
    if form == "compiled":
        assert part.opening is not None and part.feeds


def test_a_failure_names_its_op_and_the_next_step_works(session):
    x = hf.placeholder(hf.int32, [])
    with hf.device(PS):
        far = x + 1
    with hf.device(WORKER):
        picked = hf.gather(hf.constant([1.0, 2.0, 3.0]), far, name="picked")
    with hf.device(PS):
        back = picked * 2.0
    assert session.run(back, {x: 0}) == 4.0
    for _ in range(2):
        with pytest.raises(hf.errors.InvalidArgumentError, match="picked"):
            session.run(back, {x: 7})
        assert session.run(back, {x: 1}) == 6.0


def test_a_failure_when_a_step_opens(session):
    x = hf.placeholder(hf.int32, [])
    with hf.device(WORKER):
        near = hf.gather(hf.constant([1.0, 2.0]), x, name="first")
    with hf.device(PS):
        far = near * 2.0
    assert session.run(far, {x: 1}) == 4.0
    with pytest.raises(hf.errors.InvalidArgumentError, match="first"):
        session.run(far, {x: 5})
    assert session.run(far, {x: 0}) == 2.0


def test_dead_values_pass_by_the_pieces(session):
    pred = hf.placeholder(hf.bool, [])
    with hf.device(PS):
        one = hf.constant(1.0) + hf.placeholder_with_default(0.0, [])
        off, on = (raw for raw in hf.raw_ops.Switch(data=one, pred=pred))
    with hf.device(WORKER):
        up, down = on + 10.0, off - 10.0
    with hf.device(PS):
        merged = hf.raw_ops.Merge(inputs=[up, down])[0]
    for taken, value in [(True, 11.0), (False, -9.0), (True, 11.0)]:
        assert session.run(merged, {pred: taken}) == value


def test_a_piece_has_its_regions_in_the_order_of_the_executor(session):
    """Control inputs order two updates behind one value."""
    with hf.device(WORKER):
        v = hf.Variable([1.0, 1.0])
    x = hf.placeholder(hf.float32, [2])
    with hf.device(PS):
        far = x * 2.0
    with hf.device(WORKER):
        first = hf.assign(v, far)
        with hf.control_dependencies([first]):
            second = hf.assign_add(v, far)
    session.run(v.initializer)
    np.testing.assert_array_equal(session.run(second, {x: [1.0, 2.0]}), [4.0, 8.0])


def test_traced_steps_have_no_pieces(session):
    parameter, update = null_step()
    session.run(parameter.initializer)
    metadata = hf.RunMetadata()
    session.run(update.op, None, hf.RunOptions(trace_level=hf.RunOptions.FULL_TRACE), metadata)
    part = own_part("AssignAdd")
    assert part.opening is None and not any(i.piece for i in part.items)
    names = {n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats}
    assert any("mul" in name for name in names)
    assert any(i.kind == CALL for i in part.items)
