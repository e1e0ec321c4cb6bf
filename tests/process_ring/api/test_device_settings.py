"""``hf.config``: devices of the machine, and the options of sessions that are given no config."""

from __future__ import annotations

import pytest

import hpcflow as hf
from hpcflow.runtime.executor import gpus
from hpcflow.runtime.session import defaults

settings = hf.config.experimental


@pytest.fixture(autouse=True)
def nothing_set():
    defaults.reset()
    yield
    defaults.reset()


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(gpus, "count", lambda: 2)
    return settings.list_physical_devices("GPU")


def options(config=None):
    with hf.Session(graph=hf.Graph(), config=config) as session:
        return session._options


def test_the_devices_of_the_machine_are_listed_by_type(two_gpus):
    assert [tuple(d) for d in hf.config.list_physical_devices()] == [
        ("/physical_device:CPU:0", "CPU"), ("/physical_device:GPU:0", "GPU"),
        ("/physical_device:GPU:1", "GPU")]
    assert [d.name for d in two_gpus] == ["/physical_device:GPU:0", "/physical_device:GPU:1"]
    assert settings.get_visible_devices() == settings.list_physical_devices()
    assert settings.list_logical_devices("CPU")[0].name == (
        "/job:localhost/replica:0/task:0/device:CPU:0")


def test_sessions_use_the_gpus_that_are_visible(two_gpus):
    settings.set_visible_devices(two_gpus[1], "GPU")
    assert settings.get_visible_devices("GPU") == [two_gpus[1]]
    assert defaults.default_config().gpu_options.visible_device_list == "1"
    settings.set_visible_devices([], "GPU")
    assert settings.get_visible_devices("GPU") == []
    assert options().device_counts == {"GPU": 0}
    settings.set_visible_devices(two_gpus)
    assert settings.get_visible_devices("GPU") == two_gpus


def test_memory_growth_is_that_of_the_gpus_of_later_sessions(two_gpus):
    assert not settings.get_memory_growth(two_gpus[0])
    for gpu in two_gpus:
        settings.set_memory_growth(gpu, True)
    assert settings.get_memory_growth(two_gpus[1])
    assert defaults.default_config().gpu_options.allow_growth


def test_what_is_no_device_or_no_gpu_is_refused(two_gpus):
    cpu = settings.list_physical_devices("CPU")[0]
    with pytest.raises(ValueError, match="Cannot set memory growth on non-GPU devices"):
        settings.set_memory_growth(cpu, True)
    for call in (settings.get_memory_growth, settings.set_visible_devices):
        with pytest.raises(ValueError, match="Unrecognized device: 'x'"):
            call("x")
    with pytest.raises(ValueError, match="not of type GPU"):
        settings.set_visible_devices([cpu], "GPU")
    one = settings.VirtualDeviceConfiguration(memory_limit=10)
    with pytest.raises(ValueError, match="memory limit on CPU"):
        settings.set_virtual_device_configuration(cpu, [one])
    with pytest.raises(ValueError, match="per_process_gpu_memory_fraction"):
        settings.set_virtual_device_configuration(two_gpus[0], [one])


def test_a_cpu_is_as_many_devices_as_was_said():
    cpu = settings.list_physical_devices("CPU")[0]
    one = settings.VirtualDeviceConfiguration()
    settings.set_virtual_device_configuration(cpu, [one, one])
    assert settings.get_virtual_device_configuration(cpu) == [one, one]
    with hf.Graph().as_default(), hf.device("/cpu:1"):
        x = hf.constant(2.0) * hf.placeholder_with_default(3.0, [])
        with hf.Session() as session:
            assert session.run(x) == 6.0


def test_soft_placement_is_that_of_sessions_without_a_config():
    assert not hf.config.get_soft_device_placement()
    hf.config.set_soft_device_placement(True)
    assert hf.config.get_soft_device_placement()
    assert options().soft_placement
    assert not options(hf.ConfigProto()).soft_placement
    with hf.Graph().as_default(), hf.device("/gpu:77"):
        x = hf.placeholder_with_default(3.0, []) + 1.0
        with hf.Session() as session:
            assert session.run(x) == 4.0


def test_threads_and_parts_of_the_optimizer_are_what_was_set():
    threading, optimizer = hf.config.threading, hf.config.optimizer
    assert threading.get_intra_op_parallelism_threads() == 0
    threading.set_intra_op_parallelism_threads(2)
    threading.set_inter_op_parallelism_threads(3)
    assert threading.get_intra_op_parallelism_threads() == 2
    assert threading.get_inter_op_parallelism_threads() == 3
    assert not optimizer.get_jit()
    optimizer.set_jit(True)
    assert optimizer.get_jit()
    switches = {"disable_model_pruning": False, "disable_meta_optimizer": False}
    assert optimizer.get_experimental_options() == switches
    optimizer.set_experimental_options({"constant_folding": False, "unheard_of": True})
    assert optimizer.get_experimental_options() == {**switches, "constant_folding": False}
