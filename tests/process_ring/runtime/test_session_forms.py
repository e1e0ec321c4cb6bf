"""Less common ways to make, feed and call sessions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.client import session as session_lib
from hpcflow.runtime.session import fetching


class Squared:
    """Stands for the square of a tensor."""

    def __init__(self, tensor):
        self.squared = hf.square(tensor)


@pytest.fixture
def squared(monkeypatch):
    """Lets sessions fetch and feed `Squared`, in this test only."""
    monkeypatch.setattr(fetching, "_composites", list(fetching._composites))
    session_lib.register_session_run_conversion_functions(
        Squared, lambda s: ([s.squared], lambda values: values[0]),
        lambda s, value: [(s.squared, value)], lambda s: [s.squared])


def test_objects_that_stand_for_tensors(session, squared):
    s = Squared([1.0, 2.0])
    assert session.run({"s": s})["s"].tolist() == [1, 4]
    assert session.run(s, {s: [5.0, 6.0]}).tolist() == [5, 6]
    more = s.squared + 1
    handle = session.partial_run_setup([s, more], [s])
    assert session.partial_run(handle, more, {s: [2.0, 3.0]}).tolist() == [3, 4]
    assert session.partial_run(handle, s).tolist() == [2, 3]


def test_a_class_is_registered_once(squared):
    class Derived(Squared):
        pass

    for kind in (Squared, Derived, hf.SparseTensor):
        with pytest.raises(ValueError, match="already been registered"):
            session_lib.register_session_run_conversion_functions(kind, lambda s: None)


def test_objects_that_cannot_be_fed(session, monkeypatch):
    monkeypatch.setattr(fetching, "_composites", list(fetching._composites))
    session_lib.register_session_run_conversion_functions(
        Squared, lambda s: ([s.squared], lambda values: values[0]))
    s = Squared(2.0)
    assert session.run(s) == 4
    with pytest.raises(TypeError, match="feed_dict key"):
        session.run(s, {s: 1.0})
    with pytest.raises(TypeError, match="feed_dict key"):
        session.partial_run_setup([s], [s])


def test_a_callable_by_its_options(session):
    from tensorboard.compat.proto import config_pb2

    x = hf.placeholder(hf.float32, [])
    count = hf.Variable(0)
    session.run(count.initializer)
    more = hf.assign_add(count, 1)
    options = config_pb2.CallableOptions(feed=[x.name], fetch=[(x + 1).name],
                                         target=[more.op.name])
    call = session._make_callable_from_options(options)
    assert [call(np.float32(i)) for i in range(3)] == [[1], [2], [3]]
    assert session.run(count) == 3
    options.run_options.trace_level = hf.RunOptions.FULL_TRACE
    metadata = hf.RunMetadata()
    traced = session._make_callable_from_options(options)
    assert traced(1.0, run_metadata=metadata) == [2] and metadata.step_stats.dev_stats


def test_one_interactive_session_at_a_time(graph):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hf.InteractiveSession().close()
        first = hf.InteractiveSession()
    with pytest.warns(UserWarning, match="An interactive session is already active"):
        second = hf.InteractiveSession()
    second.close()
    first.close()


def test_a_target_that_is_no_address(graph):
    with pytest.raises(hf.errors.NotFoundError, match=r"No session factory.*INVALID"):
        hf.Session("INVALID")


def test_shapes_in_the_graph_def_of_a_session(graph):
    hf.constant([[1, 2]])
    config = hf.ConfigProto(graph_options=hf.GraphOptions(infer_shapes=True))
    with hf.Session(config=config) as session:
        (shape,) = session.graph_def.node[0].attr["_output_shapes"].list.shape
        assert [d.size for d in shape.dim] == [1, 2]


def test_a_server_gives_sessions_without_options_its_own(graph):
    server = hf.train.Server.create_local_server(
        config=hf.ConfigProto(operation_timeout_in_ms=100))
    value = hf.FIFOQueue(1, hf.float32).dequeue()
    with hf.Session(server.target) as session:
        with pytest.raises(hf.errors.DeadlineExceededError):
            session.run(value)
    server._server.close()
