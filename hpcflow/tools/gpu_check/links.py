"""NCCL on one GPU: a communicator of one rank, which is opened, reduces, moves and is ended.

It shows that the library loads, that its settings are understood, and that launches are in the
stream when the communicator says so. What several GPUs do is up to `exchange`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.comm import nccl
from hpcflow.resources.manager import ResourceManager
from hpcflow.runtime.executor import device as devices

if TYPE_CHECKING:
    from hpcflow.tools.gpu_check.stages import Asked

_FLOATS = 1 << 20
_PATIENCE = 20.0  # seconds to open a communicator, or to launch


def alone(asked: Asked) -> dict[str, Any]:
    """The version, the time to open a communicator, and whether values are right; says so where
    there is no NCCL, which is no failure."""
    if asked.stand_in:
        from hpcflow.tools.gpu_check.rehearsal import stand_in

        stand_in(asked.repo)
    gpu: Any = devices._TYPES["GPU"][0]("/device:GPU:0", 0, ResourceManager())
    library = gpu.nccl_library()
    if isinstance(library, str):
        return {"nccl": library}
    return gpu.entered(_tried)(gpu, library)


def _tried(gpu: Any, library: nccl.Library) -> dict[str, Any]:
    began = time.perf_counter()
    communicator = library.open(library.unique_id(), 1, 0)
    _wait(communicator)
    seconds, xp, stream = time.perf_counter() - began, gpu.xp, gpu.streams.collective
    wrong = []
    for dtype in ("float32", "float16", "int32"):
        given = np.arange(_FLOATS) % 1000
        source, target = gpu.to_device(given.astype(dtype)), xp.empty(_FLOATS, dtype)
        stream.wait_event(gpu.streams.event(gpu.streams.compute))
        code = nccl.codes()[np.dtype(dtype)]
        communicator.all_reduce(source.data.ptr, target.data.ptr, _FLOATS, code, nccl.SUM,
                                stream.ptr)
        _wait(communicator)
        gpu.streams.event(stream).synchronize()
        if not np.array_equal(gpu.to_host(target), given.astype(dtype)):
            wrong.append(dtype)
    communicator.abort()
    return {"nccl": library.version, "open_s": seconds, "failed": ", ".join(wrong) or None}


def _wait(communicator: nccl.Communicator) -> None:
    until = time.monotonic() + _PATIENCE
    while not communicator.is_ready():
        if time.monotonic() > until:
            raise nccl.NcclError(f"the communicator was not ready after {_PATIENCE:g} s")
        time.sleep(1e-4)
