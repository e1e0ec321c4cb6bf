"""What tests of cuDNN have of it: the real library beside a GPU, a stand-in, or only its files."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_ring.conftest import real_gpus
from gpu_ring.fake_cudnn import FakeCudnn

from hpcflow import config
from hpcflow.base.wheel_files import paths_in
from hpcflow.kernels.cudnn import library


def served(monkeypatch: pytest.MonkeyPatch) -> FakeCudnn | None:
    """The stand-in for the library, which kernels call from now on; None where it is the real one.
    """
    if real_gpus():
        monkeypatch.setattr(config.flags, "cudnn", "1")
        if library.load() is None:
            pytest.skip("cuDNN is not installed beside this GPU")
        return None
    fake = FakeCudnn()
    monkeypatch.setattr(library, "serving", lambda xp: fake)
    return fake


def wheel_file(name: str) -> Path:
    """A file of cuDNN's wheel; the test is skipped where that is not installed."""
    for path in paths_in(("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"), [name]):
        return Path(path)
    pytest.skip("cuDNN's wheel (half a gigabyte) is not installed")
