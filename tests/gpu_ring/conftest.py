"""A GPU for every test: a real one where there is one, else the stand-in."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))
if importlib.util.find_spec("cupy") is None:  # which `make test-gpu` installs
    collect_ignore_glob = ["test_*.py"]

from hpcflow import config
from hpcflow.runtime.executor import device as devices
from hpcflow.runtime.executor import gpus


def real_gpus() -> int:
    """GPUs that CuPy can use, unless ``HPCFLOW_TEST_STAND_IN`` asks for the stand-in."""
    return 0 if os.environ.get("HPCFLOW_TEST_STAND_IN") else (
        0 if gpus.why_none() else gpus.count())


@pytest.fixture(autouse=True, scope="module")
def gpu_type() -> Iterator[None]:
    """Puts the stand-in in the place of the GPU for the tests of a module."""
    if real_gpus():
        yield
        return
    from gpu_ring.stand_in import StandIn

    kept = devices._TYPES["GPU"]
    devices._TYPES["GPU"] = (StandIn, lambda: 1)
    yield
    devices._TYPES["GPU"] = kept


@pytest.fixture(scope="module")
def compiled(gpu_type: None) -> Iterator[None]:
    """Compiles every kernel that the tests of a module are the first to generate, as for a GPU."""
    from gpu_ring import nvrtc
    from gpu_ring.stand_in import FormPrograms

    before = set(FormPrograms.sources)
    yield
    if not real_gpus():
        nvrtc.check([source for source in FormPrograms.sources if source not in before])


@pytest.fixture
def stand_in_only() -> None:
    """Skips a test of what only the stand-in counts."""
    if real_gpus():
        pytest.skip("counts what the stand-in counts")


@pytest.fixture
def one_by_one(stand_in_only: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test that counts launches: none are joined to a graph."""
    monkeypatch.setattr(config.flags, "cuda_graphs", False)
