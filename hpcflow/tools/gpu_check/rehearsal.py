"""The stand-in of the tests in the place of the GPU: a rehearsal of the check without one."""

from __future__ import annotations

import sys
from pathlib import Path


def stand_in(repo: Path, gpus: int = 1) -> None:
    """Put the tests' stand-in in the place of the GPU, or of several."""
    sys.path.insert(0, str(repo / "tests"))
    from gpu_ring.stand_in import StandIn

    from hpcflow.runtime.executor import device

    device.unregister_device_type("GPU")
    device.register_device_type(StandIn, lambda: gpus)
