"""Devices of a task, and the registry of device types."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels import late_errors
from hpcflow.loops.cuda import CudaPrograms, Programs
from hpcflow.resources.manager import ResourceManager
from hpcflow.runtime.executor import gpus


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

    @classmethod
    def make(cls, prefix: str, resources: ResourceManager, wanted: int | None, available: int,
             options: gpus.GpuOptions) -> list[Device]:
        """The devices of this type of a task: `wanted` of them (None: as many as are there)."""
        number = available if wanted is None else wanted
        if cls.has_own_memory:
            number = min(number, available)
        return [cls(f"{prefix}/device:{cls.type}:{i}", i, resources)
                for i in range(max(number, 1) if cls.type == "CPU" else number)]

    def to_device(self, value: Any) -> Any:
        """Return a host value as a value of this device (one of the device as it is)."""
        return value

    def to_host(self, value: np.ndarray | np.generic | bytes) -> Any:
        """Return a value of this device as a host value (one of the host as it is)."""
        return value

    def is_device_value(self, value: object) -> bool:
        """True if `value` lives in this device's own memory."""
        return False

    def special(self, name: str) -> Callable[..., Any]:
        """The special function that ``cupyx.scipy.special`` calls `name`, on values of the device.

        Only devices of type GPU are asked.
        """
        raise NotImplementedError(f"devices of type {self.type} have no function {name}")

    def entered(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function`, which launches work, so that it runs with this device as the current
        one in any thread."""
        return function

    @functools.cached_property
    def programs(self) -> Programs | None:
        """What runs fused lines on this device; None if nothing does."""
        return None

    @functools.cached_property
    def on_host(self) -> Device:
        """This device as kernels see it that compute in host memory."""
        return Device(self.name, self.index, self.resources)

    def synchronize(self) -> None:
        """Wait for the work that was handed to the device."""

    def memory_limit(self) -> int:
        """Bytes of memory of the device, 0 if unknown."""
        return 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class CupyDevice(Device):
    """A CUDA GPU through CuPy: one memory pool and one stream per device.

    `number` is that of the GPU among those of the node, `index` that of the device in its task.
    """

    type = "GPU"
    has_own_memory = True
    priority = 100

    def __init__(self, name: str, index: int, resources: ResourceManager,
                 number: int | None = None,
                 options: gpus.GpuOptions | None = None) -> None:
        super().__init__(name, index, resources)
        import cupy

        self.xp = cupy
        self._device = cupy.cuda.Device(index if number is None else number)
        if options is not None and options.fraction:
            self._limit_memory(options)

    @classmethod
    def make(cls, prefix: str, resources: ResourceManager, wanted: int | None, available: int,
             options: gpus.GpuOptions) -> list[Device]:
        """The GPUs of this rank."""
        numbers = gpus.chosen_here(available, wanted, options)
        return [cls(f"{prefix}/device:{cls.type}:{i}", i, resources, number, options)
                for i, number in enumerate(numbers)]

    def _limit_memory(self, options: gpus.GpuOptions) -> None:
        """Take no more than the fraction of the memory; at once all, unless it is to grow."""
        with self._device:
            pool = self.xp.get_default_memory_pool()
            pool.set_limit(fraction=options.fraction)
            if not options.allow_growth:
                pool.malloc(pool.get_limit() - pool.total_bytes())  # and back into the pool

    def to_device(self, value: Any) -> Any:
        """The value as a CuPy array; strings stay."""
        if isinstance(value, self.xp.ndarray) or _is_host_only(value):
            return value
        with self._device:
            return self.xp.asarray(value)

    def to_host(self, value: Any) -> Any:
        """The value as a NumPy array (of rank 0: a scalar), once it is complete.

        Raises what the device found wrong until then (`hpcflow.kernels.late_errors`).
        """
        if not isinstance(value, self.xp.ndarray):
            return value
        with self._device:
            if late_errors.count():
                return late_errors.read(self.xp, value, self._copied)
            return self._copied(value)

    def _copied(self, value: Any) -> Any:
        found = self.xp.asnumpy(value)
        return found if found.ndim else found[()]

    def special(self, name: str) -> Callable[..., Any]:
        """CuPy's special function."""
        import cupyx.scipy.special

        return getattr(cupyx.scipy.special, name)

    @functools.cached_property
    def programs(self) -> Programs | None:
        """Generated kernels."""
        return CudaPrograms(self.xp)

    def entered(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` after ``cudaSetDevice``, where there is more than one GPU: the current one is
        that of each thread."""
        if self.xp.cuda.runtime.getDeviceCount() < 2:
            return function
        device = self._device

        def run(*inputs: Any, **options: Any) -> Any:
            with device:
                return function(*inputs, **options)

        return run

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
    """True for strings, which have no form on an accelerator."""
    return isinstance(value, bytes) or (isinstance(value, np.ndarray) and value.dtype.kind == "O")


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


def make_devices(prefix: str, resources: ResourceManager, counts: dict[str, int] | None = None,
                 options: gpus.GpuOptions | None = None) -> list[Device]:
    """Make the devices of a task; `prefix` is ``/job:x/replica:0/task:n``.

    `counts` (``ConfigProto.device_count``) overrides how many of a type there are; an accelerator
    type never gets more than the machine has. `options` say which GPUs, and how much of them.
    """
    devices: list[Device] = []
    for name, (device_class, count) in _TYPES.items():
        wanted = (counts or {}).get(name)
        if wanted != 0:
            devices += device_class.make(prefix, resources, wanted, count(),
                                         options or gpus.GpuOptions())
    return devices


register_device_type(Device, lambda: 1)
register_device_type(CupyDevice, gpus.count)
