"""``hpcflow.config.experimental``: the devices of the machine, and those that sessions use.

A setting concerns the sessions that are made after it, without a ``config`` of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hpcflow.base.late_names import named_otherwise
from hpcflow.platform.device_lib import list_local_devices
from hpcflow.runtime.executor import gpus
from hpcflow.runtime.session.defaults import default_config, to_edit


class PhysicalDevice(NamedTuple):
    """A device of the machine: its name there, and its type."""

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device of a session: the name that ops are placed by, and its type."""

    name: str
    device_type: str


class VirtualDeviceConfiguration(NamedTuple):
    """One of the devices of a session that a device of the machine is shared by."""

    memory_limit: int | None = None


_virtual: dict[str, list[VirtualDeviceConfiguration]] = {}


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the devices of the machine, or those of one type: ``"CPU"``, ``"GPU"``."""
    names = ["CPU:0", *(f"GPU:{number}" for number in range(gpus.count()))]
    found = [PhysicalDevice(f"/physical_device:{name}", name[:3]) for name in names]
    return [device for device in found if device_type in (None, device.device_type)]


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """Return the devices of a session without a config, or those of one type."""
    found = [LogicalDevice(f"/job:localhost/replica:0/task:0{device.name}", device.device_type)
             for device in list_local_devices()]
    return [device for device in found if device_type in (None, device.device_type)]


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the devices of the machine that sessions use, or those of one type."""
    config, found = default_config(), list_physical_devices(device_type)
    if config is None:
        return found
    numbers = config.gpu_options.visible_device_list
    seen = {f"/physical_device:GPU:{number}" for number in numbers.split(",")}
    return [device for device in found
            if config.device_count.get(device.device_type, 1)
            and (device.device_type == "CPU" or not numbers or device.name in seen)]


def set_visible_devices(devices: PhysicalDevice | list[PhysicalDevice],
                        device_type: str | None = None) -> None:
    """Let sessions use these devices of the machine, and no others of `device_type` (of any type
    where it is None). CPUs cannot be hidden: steps begin and end there.

    Raises ``ValueError`` for what is no device of the machine, or not of `device_type`.
    """
    wanted = list(devices) if isinstance(devices, list) else [devices]
    for device in wanted:
        _check(device)
        if device_type not in (None, device.device_type):
            raise ValueError(f"Unrecognized device: {device!r} is not of type {device_type}")
    if device_type not in (None, "GPU"):
        return
    config = to_edit()
    numbers = [device.name.rpartition(":")[2] for device in wanted if device.device_type == "GPU"]
    config.gpu_options.visible_device_list = ",".join(numbers)
    if numbers:
        config.device_count.pop("GPU", None)
    else:
        config.device_count["GPU"] = 0


def get_memory_growth(device: PhysicalDevice) -> bool:
    """Return True if memory of a GPU is taken when it is needed, as was set; ``ValueError`` for
    what is no GPU."""
    _check_gpu(device)
    config = default_config()
    return config is not None and config.gpu_options.allow_growth


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Take the memory of GPUs when it is needed, not at first; ``ValueError`` for what is no GPU.
    All GPUs of a session do the same."""
    _check_gpu(device)
    to_edit().gpu_options.allow_growth = enable


def get_virtual_device_configuration(
        device: PhysicalDevice) -> list[VirtualDeviceConfiguration] | None:
    """Return what :func:`set_virtual_device_configuration` set; None if nothing was."""
    _check(device)
    return _virtual.get(device.name) if default_config() is not None else None


def set_virtual_device_configuration(
        device: PhysicalDevice, virtual_devices: Sequence[VirtualDeviceConfiguration]) -> None:
    """Let sessions have as many CPU devices as `virtual_devices` names.

    Raises ``ValueError`` for limits of a CPU's memory, and for GPUs, which are not divided: use
    ``gpu_options.per_process_gpu_memory_fraction`` of a ``ConfigProto``.
    """
    _check(device)
    if device.device_type != "CPU":
        raise ValueError(f"{device.name} is not divided into virtual devices: use "
                         "gpu_options.per_process_gpu_memory_fraction of a ConfigProto")
    if any(virtual.memory_limit is not None for virtual in virtual_devices):
        raise ValueError("Setting memory limit on CPU virtual devices is currently not supported")
    _virtual[device.name] = list(virtual_devices)
    to_edit().device_count["CPU"] = max(1, len(virtual_devices))


def _check(device: PhysicalDevice) -> None:
    if device not in list_physical_devices():
        raise ValueError(f"Unrecognized device: {device!r}")


def _check_gpu(device: PhysicalDevice) -> None:
    _check(device)
    if device.device_type != "GPU":
        raise ValueError("Cannot set memory growth on non-GPU devices")


__getattr__ = named_otherwise(__name__)
