"""Sessions that name the servers of a process by a cluster of their own, or keep their variables
to themselves."""

import pytest

import hpcflow as hf
from hpcflow.python.training import server_lib


@pytest.fixture
def servers():
    made = [server_lib.Server.create_local_server() for _ in range(2)]
    yield made
    for server in made:
        server._server.close()


def config_for(servers, **options):
    config = hf.ConfigProto(**options)
    job = config.cluster_def.job.add(name="worker")
    for index, server in enumerate(servers):
        job.tasks[index] = server.target.removeprefix("grpc://")
    return config


@pytest.fixture
def variable():
    with hf.Graph().as_default():
        value = hf.placeholder(hf.int32, [])
        yield value, hf.Variable(value)


def initialize(session, variable, number):
    session.run(variable[1].initializer, {variable[0]: number})


def test_tasks_have_the_names_of_the_session(servers):
    with hf.Graph().as_default():
        with hf.device("/job:worker/task:1"):
            there = hf.Variable(3)
        here = there + 1
        with hf.Session(servers[0].target, config=config_for(servers)) as session:
            session.run(there.initializer)
            assert session.run(here) == 4
            names = {d.name for d in session.list_devices()}
            assert "/job:worker/replica:0/task:1/device:CPU:0" in names
            assert not any("/job:local/" in name for name in names)
        with hf.Session(servers[0].target) as session, pytest.raises(
                hf.errors.InvalidArgumentError, match="/job:worker/task:1"):
            session.run(there.initializer)


@pytest.mark.parametrize("isolated", [True, False])
def test_variables_are_those_of_the_session(servers, variable, isolated):
    config = hf.ConfigProto(isolate_session_state=True) if isolated else config_for(servers[:1])
    with hf.Session(servers[0].target, config=config) as first, \
            hf.Session(servers[0].target, config=config) as second:
        initialize(first, variable, 37)
        with pytest.raises(hf.errors.FailedPreconditionError):
            second.run(variable[1])
        initialize(second, variable, 86)
        assert (first.run(variable[1]), second.run(variable[1])) == (37, 86)
    with hf.Session(servers[0].target) as session, pytest.raises(
            hf.errors.FailedPreconditionError):
        session.run(variable[1])


def test_sessions_share_variables_where_they_ask_for_it(servers, variable):
    config = config_for(servers[:1])
    config.experimental.share_session_state_in_clusterspec_propagation = True
    with hf.Session(servers[0].target, config=config) as first:
        initialize(first, variable, 37)
        with hf.Session(servers[0].target, config=config) as second:
            assert second.run(variable[1]) == 37
        assert first.run(variable[1]) == 37


def test_a_cluster_must_be_of_servers_that_are_there(servers, variable):
    config = config_for(servers[:1])
    config.cluster_def.job[0].tasks[1] = "elsewhere:1"
    with pytest.raises(hf.errors.UnavailableError, match="elsewhere:1"):
        hf.Session(servers[0].target, config=config)
    with pytest.raises(hf.errors.InvalidArgumentError, match="must have a task"):
        hf.Session(servers[0].target, config=config_for(servers[1:]))


def test_every_device_has_a_number_of_its_own(servers):
    with hf.Session(servers[0].target, config=config_for(servers)) as session:
        numbers = [d.incarnation for d in session.list_devices()]
        assert numbers == [d.incarnation for d in session.list_devices()]
    assert len(set(numbers)) == 2 and all(numbers)


def test_a_server_that_logs_placement_does_so_for_all_sessions(capfd):
    server = server_lib.Server.create_local_server(
        config=hf.ConfigProto(log_device_placement=True))
    total = hf.add(1, 2, name="logged_by_the_server")
    with hf.Session(server.target, config=hf.ConfigProto()) as session:
        assert session.run(total) == 3
    server._server.close()
    assert "logged_by_the_server: (Add): /job:local/" in "".join(capfd.readouterr())
