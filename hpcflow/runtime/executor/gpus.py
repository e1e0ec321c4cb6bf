"""Choice of a task's GPUs, and what ``GPUOptions`` asks of them."""

from __future__ import annotations

import functools
import importlib.util
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hpcflow.comm.launch import Launch, launch
from hpcflow.errors import InvalidArgumentError

if TYPE_CHECKING:
    from google.protobuf.message import Message

_PROBE = "extern \"C\" __global__ void hpcflow_probe() {}"


class GpuOptions(NamedTuple):
    """The options of a session for GPUs.

    Attributes:
        visible: the numbers of the GPUs that may be used, in their order; None for all.
        fraction: of a GPU's memory the most that may be taken; 0 for all.
        allow_growth: take memory when it is needed, not all of the fraction at first.
    """

    visible: tuple[int, ...] | None = None
    fraction: float = 0.0
    allow_growth: bool = True

    @staticmethod
    def of(proto: Message | None) -> GpuOptions:
        """From a ``ConfigProto``, None for the defaults.

        Raises ``InvalidArgumentError`` for lists and fractions that say nothing.
        """
        if proto is None or not proto.HasField("gpu_options"):
            return GpuOptions()
        options = proto.gpu_options
        fraction = options.per_process_gpu_memory_fraction
        if not 0 <= fraction <= 1:
            raise InvalidArgumentError(None, None, "per_process_gpu_memory_fraction must be within "
                                       f"[0, 1], got {fraction}")
        return GpuOptions(_numbers(options.visible_device_list), fraction,
                          options.allow_growth or not fraction)


def _numbers(text: str) -> tuple[int, ...] | None:
    """The numbers of a list such as ``"1,0"``; None of an empty one."""
    if not text.strip():
        return None
    try:
        found = tuple(int(word) for word in text.split(","))
    except ValueError:
        found = ()
    if not found or len(set(found)) != len(found) or min(found) < 0:
        raise InvalidArgumentError(None, None, "visible_device_list must name different GPUs by "
                                   f"their numbers, as in \"0,2\"; got {text!r}")
    return found


def choose(available: int, wanted: int | None, options: GpuOptions,
           started: Launch | None) -> list[int]:
    """The numbers of the GPUs that this process uses, of `available` on the node.

    Under a launcher every rank takes `wanted` (one by default), by its number among the ranks of
    its node, and round again where there are more ranks than GPUs; a process of its own takes
    `wanted`, all by default. Raises ``InvalidArgumentError`` for a visible GPU that is not there.
    """
    visible: Sequence[int] = range(available) if options.visible is None else options.visible
    missing = [n for n in visible if n >= available]
    if missing and available:
        raise InvalidArgumentError(None, None, f"visible_device_list names GPU {missing[0]}, but "
                                   f"the machine has {available}: 0 to {available - 1}")
    if not available or not visible:
        return []
    ranks, rank = (1, 0) if started is None else (started.local_size or 1, started.local_rank or 0)
    number = wanted if wanted is not None else 1 if ranks > 1 else len(visible)
    number = min(number, len(visible))
    return [visible[(rank * number + i) % len(visible)] for i in range(number)]


def chosen_here(available: int, wanted: int | None, options: GpuOptions) -> list[int]:
    """As :func:`choose`, for this very process; the first rank of a node says so where ranks are
    more than GPUs."""
    started = launch()
    found = choose(available, wanted, options, started)
    there = available if options.visible is None else len(options.visible)
    if found and started is not None and not started.local_rank and (
            (started.local_size or 1) > there):
        _warn(f"{started.local_size} ranks of this node share {there} "
              f"GPU{'s' * (there > 1)}: each uses a part of one")
    return found


def usable(numbers: Sequence[int], why_not: Callable[[int], str]) -> list[int]:
    """Those of the GPUs `numbers` that ``why_not`` has nothing against; it is said of others once.
    """
    reasons = {n: why_not(n) for n in numbers}
    for number, reason in reasons.items():
        if reason:
            _warn(f"GPU {number} is not used: {reason}")
    return [n for n in numbers if not reasons[n]]


@functools.cache
def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


@functools.cache
def why_nothing_found() -> str:
    """Why CuPy finds no GPU; empty if it finds one."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the error says what is missing
            import cupy
    except ImportError as e:
        return f"CuPy cannot be imported: {e}"
    try:
        return "" if cupy.cuda.runtime.getDeviceCount() else _NO_GPU
    except Exception as e:  # noqa: BLE001  (each part of CUDA has a class of errors of its own)
        return _explained(e)


@functools.cache
def why_not(number: int) -> str:
    """Why GPU `number` cannot be used; empty if it can: a kernel compiles and runs there."""
    import cupy

    try:
        with cupy.cuda.Device(number):
            cupy.RawKernel(_PROBE, "hpcflow_probe")((1,), (1,), ())
            cupy.cuda.runtime.deviceSynchronize()
    except Exception as e:  # noqa: BLE001  (each part of CUDA has a class of errors of its own)
        return _explained(e)
    return ""


def why_none() -> str:
    """Why this process can use no GPU; empty if it can use one of those that it would take."""
    reason = why_nothing_found()
    if reason:
        return reason
    reasons = [f"GPU {n}: {why}" if (why := why_not(n)) else ""
               for n in chosen_here(count(), None, GpuOptions())]
    return reasons[0] if all(reasons) else ""


def count() -> int:
    """The GPUs that there are for CuPy; 0 without CuPy or a driver, and it is said once if that is
    too old."""
    reason = why_nothing_found()
    if reason:
        if reason.startswith(_TOO_OLD):
            _warn(f"no GPU is used: {reason}")
        return 0
    import cupy

    return int(cupy.cuda.runtime.getDeviceCount())


_NO_GPU, _TOO_OLD = "the CUDA driver finds no GPU", "the CUDA driver is too old"
_TAKEN = ("another process has the GPU for itself, or nobody may compute on it: 'nvidia-smi -q -d "
          "COMPUTE' shows its mode")
# Names in errors of the runtime and the driver -> what they mean.
_MEANINGS = {
    "cudaErrorNoDevice": _NO_GPU, "cudaErrorDevicesUnavailable": _TAKEN,
    "cudaErrorDeviceAlreadyInUse": _TAKEN, "CUDA_ERROR_DEVICE_UNAVAILABLE": _TAKEN,
    "NoKernelImageForDevice": "the GPU is too old for this CuPy and its CUDA",
    "NO_BINARY_FOR_GPU": "the GPU is too old for this CuPy and its CUDA",
}


def _explained(error: Exception) -> str:
    """One line that says what to do about an error of CUDA."""
    text = f"{type(error).__name__}: {error}"
    if any(name in text for name in ("InsufficientDriver", "UnsupportedPtx", "UNSUPPORTED_PTX")):
        return _about_driver()
    found = next((meaning for name, meaning in _MEANINGS.items() if name in text), None)
    return found or f"no kernel runs on the GPU: {' '.join(text.split())}"


def _about_driver() -> str:
    """Why the driver does not do."""
    import cupy

    driver, needed = (getattr(cupy.cuda.runtime, f"{what}GetVersion")() for what in (
        "driver", "runtime"))
    if not driver:
        return "there is no CUDA driver"
    return (f"{_TOO_OLD}: it serves CUDA {_version(driver)}, but CuPy comes with "
            f"{_version(needed)}; update the driver, or install the CuPy of CUDA {driver // 1000}")


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
