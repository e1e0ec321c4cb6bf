"""Devices of a task, and the registry of device types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.resources.manager import ResourceManager


class Device:
    """One device of a task: where kernels run and values live.

    Subclasses for devices with memory of their own override the transfers. Their work may be
    asynchronous; ``to_host`` returns only when the value is complete.
    """

    type = "CPU"
    has_own_memory = False
    priority = 0  # among devices that fit, the highest is preferred

    def __init__(self, name: str, index: int, resources: ResourceManager) -> None:
        self.name = name
        self.index = index
        self.resources = resources
        self.xp: Any = np

    def to_device(self, value: Any) -> Any:
        """Return a host value as a value of this device (one of the device as it is)."""
        return value

    def to_host(self, value: Any) -> Any:
        """Return a value of this device as a host value (one of the host as it is)."""
        return value

    def is_device_value(self, value: Any) -> bool:
        """True if `value` lives in this device's own memory."""
        return False

    def synchronize(self) -> None:
        """Wait for the work that was handed to the device."""

    def memory_limit(self) -> int:
        """Bytes of memory of the device, 0 if unknown."""
        return 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class CupyDevice(Device):
    """A CUDA GPU through CuPy: one memory pool and one stream per device."""

    type = "GPU"
    has_own_memory = True
    priority = 100

    def __init__(self, name: str, index: int, resources: ResourceManager) -> None:
        super().__init__(name, index, resources)
        import cupy

        self.xp = cupy
        self._device = cupy.cuda.Device(index)

    def to_device(self, value: Any) -> Any:
        """The value as a CuPy array; strings stay."""
        if isinstance(value, self.xp.ndarray) or _is_host_only(value):
            return value
        with self._device:
            return self.xp.asarray(value)

    def to_host(self, value: Any) -> Any:
        """The value as a NumPy array, once it is complete."""
        return self.xp.asnumpy(value) if isinstance(value, self.xp.ndarray) else value

    def is_device_value(self, value: Any) -> bool:
        """True for CuPy arrays."""
        return isinstance(value, self.xp.ndarray)

    def synchronize(self) -> None:
        """Wait for all streams of the GPU."""
        self._device.synchronize()

    def memory_limit(self) -> int:
        """Bytes of memory of the GPU."""
        return int(self._device.mem_info[1])


def _is_host_only(value: Any) -> bool:
    """Strings have no form on an accelerator."""
    return isinstance(value, bytes) or (isinstance(value, np.ndarray) and value.dtype.kind == "O")


def _count_cupy_devices() -> int:
    """GPUs that CuPy can use; 0 without CuPy or a working driver."""
    import importlib.util

    if importlib.util.find_spec("cupy") is None:
        return 0
    try:
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # noqa: BLE001  (a missing driver shows as many kinds of error)
        return 0


# type -> (device class, function that counts what the machine has)
_TYPES: dict[str, tuple[type[Device], Callable[[], int]]] = {}


def register_device_type(device_class: type[Device], count: Callable[[], int]) -> None:
    """Make a device type known: its class, and how many of it a task has by default.

    Raises ``ValueError`` when the type is taken by another class.
    """
    known = _TYPES.get(device_class.type)
    if known is not None and known[0] is not device_class:
        raise ValueError(f"Device type {device_class.type} is registered already")
    _TYPES[device_class.type] = (device_class, count)


def unregister_device_type(name: str) -> None:
    """Forget a device type (tests register some of their own)."""
    _TYPES.pop(name, None)


def device_types() -> list[str]:
    """The registered device types."""
    return list(_TYPES)


def make_devices(prefix: str, resources: ResourceManager,
                 counts: dict[str, int] | None = None) -> list[Device]:
    """Make the devices of a task; `prefix` is ``/job:x/replica:0/task:n``.

    `counts` (``ConfigProto.device_count``) overrides how many of a type there are; an accelerator
    type never gets more than the machine has.
    """
    devices: list[Device] = []
    for name, (device_class, count) in _TYPES.items():
        wanted = (counts or {}).get(name)
        if wanted == 0:
            continue
        available = count()
        number = available if wanted is None else wanted
        if device_class.has_own_memory:
            number = min(number, available)
        devices.extend(device_class(f"{prefix}/device:{name}:{i}", i, resources)
                       for i in range(max(number, 1) if name == "CPU" else number))
    return devices


register_device_type(Device, lambda: 1)
register_device_type(CupyDevice, _count_cupy_devices)
