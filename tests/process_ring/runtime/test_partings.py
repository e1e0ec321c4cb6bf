"""What sessions do before they end, because of what they have begun."""

from __future__ import annotations

import pytest

import hpcflow as hf


@pytest.fixture
def target():
    server = hf.train.Server.create_local_server()
    yield server.target
    server._server.close()


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("only_if_closed", [True, False])
def test_a_session_that_has_begun_ends(target, begins, only_if_closed):
    with hf.Graph().as_default() as graph:
        count = hf.Variable(0)
        begin = hf.no_op("begin")
        with hf.control_dependencies([begin]):
            behind = hf.constant(1) + hf.constant(2)
        graph.add_parting(begin, hf.assign_add(count, 1).op, only_if_closed)
        with hf.Session(target) as session:
            session.run(count.initializer)
            for _ in range(2):
                session.run(behind if begins else count)
        with hf.Session(target) as session:
            assert session.run(count) == begins
            session.run(begin)
            session._partings.run(is_closed=False)  # as where its program ends
            assert session.run(count) == begins + (not only_if_closed)


def test_what_fails_at_the_end_is_nobodys_error(target):
    with hf.Graph().as_default() as graph:
        queue = hf.FIFOQueue(1, hf.int32)
        close = queue.close()
        graph.add_parting(close, queue.dequeue().op)
        with hf.Session(target) as session:
            session.run(close)
