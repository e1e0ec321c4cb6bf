"""Choice of a task's GPUs, and what ``GPUOptions`` asks of them."""

from __future__ import annotations

import functools
import importlib.util
import warnings
from collections.abc import Sequence
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
    """As :func:`choose`, for this very process."""
    return choose(available, wanted, options, launch())


@functools.cache
def why_none() -> str:
    """Why no GPU can be used; empty if one can: CuPy runs a kernel there."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the error says what is missing
            import cupy
    except ImportError as e:
        return f"CuPy cannot be imported: {e}"
    try:
        if not cupy.cuda.runtime.getDeviceCount():
            return "the CUDA driver finds no GPU"
        cupy.RawKernel(_PROBE, "hpcflow_probe")((1,), (1,), ())
        cupy.cuda.runtime.deviceSynchronize()
    except Exception as e:  # noqa: BLE001  (each part of CUDA has a class of errors of its own)
        return f"no kernel runs on the GPU: {type(e).__name__}: {e}"
    return ""


def count() -> int:
    """The GPUs that kernels run on; 0 without CuPy, a driver, or a compiler of kernels."""
    if why_none():
        return 0
    import cupy

    return int(cupy.cuda.runtime.getDeviceCount())
