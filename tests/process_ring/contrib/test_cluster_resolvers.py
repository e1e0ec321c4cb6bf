"""Cluster resolvers: the places that Slurm, MPI and TF_CONFIG give a process."""

from __future__ import annotations

import json

import pytest

import hpcflow as hf
from hpcflow.contrib import cluster_resolver
from hpcflow.contrib.cluster_resolver.nodes import expanded, tasks_on_nodes

STEP = {"SLURM_PROCID": "3", "SLURM_NTASKS": "5", "SLURM_STEP_NUM_TASKS": "5",
        "SLURM_STEP_NODELIST": "n[01-03]", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1"}


@pytest.fixture
def step(monkeypatch):
    for name, value in STEP.items():
        monkeypatch.setenv(name, value)


def test_lists_of_nodes_are_written_out():
    assert expanded("a[01-03,7]b,c,n[1-2]-[08-09]") == [
        "a01b", "a02b", "a03b", "a7b", "c", "n1-08", "n1-09", "n2-08", "n2-09"]
    assert tasks_on_nodes("2(x2),1", 3) == [2, 2, 1] and tasks_on_nodes("4", 2) == [4, 4]
    with pytest.raises(ValueError, match="no range 'x'"):
        expanded("a[1,x]")
    with pytest.raises(ValueError, match="expected 3"):
        tasks_on_nodes("2,1", 3)


def test_tasks_of_a_slurm_step_get_jobs_and_addresses(step):
    found = cluster_resolver.SlurmClusterResolver({"worker": 4, "ps": 1}, port_base=7000)
    assert found.cluster_spec().as_dict() == {
        "ps": ["n01:7000"], "worker": ["n01:7001", "n02:7000", "n02:7001", "n03:7000"]}
    assert found.get_task_info() == ("worker", 2) == (found.task_type, found.task_id)
    assert found.master() == "grpc://n02:7001" and found.master("ps", 0) == "grpc://n01:7000"


def test_jobs_of_another_number_of_tasks_are_refused(step, monkeypatch):
    with pytest.raises(RuntimeError, match="have 4 tasks, but 5 were started"):
        cluster_resolver.SlurmClusterResolver({"worker": 4})
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "1")
    with pytest.raises(RuntimeError, match="room for 3"):
        cluster_resolver.SlurmClusterResolver({"worker": 5})


def test_a_process_alone_is_the_only_worker():
    found = cluster_resolver.MPIClusterResolver({"ps": 1})
    assert found.get_task_info() == ("worker", 0) and found.master() == "mpi://0"


def test_tf_config_names_cluster_and_task(monkeypatch):
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps(
        {"cluster": cluster, "task": {"type": "worker", "index": "1"}}))
    found = cluster_resolver.TFConfigClusterResolver()
    assert found.cluster_spec().as_dict() == cluster and found.master() == "grpc://c:1"
    assert isinstance(found.num_accelerators(), dict)
    simple = cluster_resolver.SimpleClusterResolver(hf.train.ClusterSpec(cluster), "grpc://a:1")
    assert simple.master() == "grpc://a:1"
