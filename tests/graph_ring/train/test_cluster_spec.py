"""ClusterSpec: jobs, tasks and addresses."""

from __future__ import annotations

import pytest

from hpcflow.train import ClusterSpec

JOBS = {"ps": ["mpi://0", "mpi://1"], "worker": ["mpi://2", "mpi://3"]}
SPARSE = {"worker": {1: "a:1", 4: "a:2"}}


def test_lists():
    spec = ClusterSpec(JOBS)
    assert spec.jobs == ["ps", "worker"]
    assert spec.num_tasks("ps") == 2
    assert spec.task_indices("worker") == [0, 1]
    assert spec.task_address("worker", 1) == "mpi://3"
    assert spec.job_tasks("ps") == ["mpi://0", "mpi://1"]
    assert spec.as_dict() == JOBS
    assert spec.addresses()["worker", 0] == "mpi://2"
    assert spec
    assert not ClusterSpec({})


def test_tasks_with_gaps():
    spec = ClusterSpec(SPARSE)
    assert spec.num_tasks("worker") == 2
    assert spec.task_indices("worker") == [1, 4]
    assert spec.job_tasks("worker") == [None, "a:1", None, None, "a:2"]
    assert spec.as_dict() == SPARSE
    assert ClusterSpec({"empty": []}).job_tasks("empty") == []


@pytest.mark.parametrize("jobs", [JOBS, SPARSE])
def test_every_form_makes_the_same_cluster(jobs):
    spec = ClusterSpec(jobs)
    for other in (ClusterSpec(spec), ClusterSpec(spec.as_dict()), ClusterSpec(
            spec.as_cluster_def())):
        assert other == spec
        assert hash(other) == hash(spec)
    assert spec != ClusterSpec({"other": ["a:1"]})
    assert spec != jobs
    assert ClusterSpec(eval(repr(spec))) == spec


def test_the_protobuf():
    proto = ClusterSpec(JOBS).as_cluster_def()
    assert [job.name for job in proto.job] == ["ps", "worker"]
    assert dict(proto.job[1].tasks) == {0: "mpi://2", 1: "mpi://3"}


@pytest.mark.parametrize(
    ("cluster", "error", "message"),
    [
        (3, TypeError, "must be a dictionary"),
        ({1: ["a"]}, TypeError, "a job name must be a string"),
        ({"ps": "a"}, TypeError, "must be a list or a dictionary"),
        ({"ps": [1]}, TypeError, "address of /job:ps/task:0 must be a string"),
        ({"ps": {"x": "a"}}, TypeError, "must be an integer >= 0"),
        ({"ps": {-1: "a"}}, TypeError, "must be an integer >= 0"),
        ({"ps": ["a"], "worker": ["b", "a"]}, ValueError,
         "'a' is given to both /job:ps/task:0 and /job:worker/task:1"),
    ],
)  # fmt: skip
def test_what_is_no_cluster(cluster, error, message):
    with pytest.raises(error, match=message):
        ClusterSpec(cluster)


def test_what_is_not_there():
    spec = ClusterSpec(JOBS)
    for call in (spec.num_tasks, spec.task_indices, spec.job_tasks):
        with pytest.raises(ValueError, match="No such job in cluster: 'chief'"):
            call("chief")
    with pytest.raises(ValueError, match="No task with index 2 in job 'ps'"):
        spec.task_address("ps", 2)


def test_a_setter_deals_out_tasks_of_a_named_job_only():
    import hpcflow as hf

    with hf.Graph().as_default():
        for ps_device, devices in (("/job:ps", ["/job:ps/task:0", "/job:ps/task:1"]),
                                   ("/cpu:0", ["/device:CPU:0"] * 2)):
            with hf.device(hf.train.replica_device_setter(2, ps_device)):
                assert [hf.Variable(1).device for _ in devices] == devices


def test_a_cluster_of_workers_without_servers_is_told_so(capsys):
    import hpcflow as hf

    for workers in (["a:1"], ["a:1", "b:1"]):
        assert hf.train.replica_device_setter(cluster={"worker": workers}) is None
        said = capsys.readouterr().err
        assert ("none of the 2 tasks of the cluster is of job 'ps'" in said) == (len(workers) == 2)
    assert hf.train.replica_device_setter(cluster={"worker": ["a:1"], "ps": ["b:1"]})
    assert not capsys.readouterr().err
