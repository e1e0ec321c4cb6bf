"""Where tests run: their directories, the devices at hand, and the main function."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

from hpcflow.base import at_end
from hpcflow.test_util.benchmark import run_benchmarks

_temp_dir: str | None = None


def get_temp_dir() -> str:
    """Return a directory for the files of this process's tests.

    It lies in ``TEST_TMPDIR`` where that is set, and otherwise in the system's place for temporary
    files, and is removed when the process ends.
    """
    global _temp_dir
    if _temp_dir is None:
        _temp_dir = tempfile.mkdtemp(prefix="hpcflow-test-", dir=os.environ.get("TEST_TMPDIR"))
        at_end.register(shutil.rmtree, _temp_dir, ignore_errors=True)
    return _temp_dir


def test_src_dir_path(relative_path: str) -> str:
    """Return the absolute path of `relative_path`, a path relative to the package's directory."""
    return str(Path(__file__).resolve().parents[1] / relative_path)


# Not itself a test, although its name begins like one.
test_src_dir_path.__test__ = False  # type: ignore[attr-defined]


def is_built_with_cuda() -> bool:
    """Return whether the parts that CUDA devices need are installed."""
    return importlib.util.find_spec("cupy") is not None


is_built_with_gpu_support = is_built_with_cuda


def is_built_with_rocm() -> bool:
    """Return False: GPUs are driven through CUDA."""
    return False


@functools.cache
def gpu_device_name() -> str:
    """Return the name of the first GPU, such as ``/device:GPU:0``; empty if there is none."""
    from hpcflow.graph.graph import Graph
    from hpcflow.runtime.session.session import Session

    with Session(graph=Graph()) as session:
        names = [d.name for d in session.list_devices() if d.type == "GPU"]
    return f"/device:GPU:{names[0].rsplit(':', 1)[1]}" if names else ""


def is_gpu_available(cuda_only: bool = False,
                     min_cuda_compute_capability: tuple[int, int] | None = None) -> bool:
    """Return whether there is a GPU, whatever it is asked to be capable of. (`cuda_only`: GPUs are
    always driven through CUDA here.)"""
    return bool(gpu_device_name())


def main(argv: list[str] | None = None) -> None:
    """Run the tests of the main module, or its benchmarks with ``--benchmarks=REGULAR_EXPRESSION``.

    `argv` stands for ``sys.argv``. Ends the process with the tests' status.
    """
    argv = list(sys.argv if argv is None else argv)
    chosen = [a.split("=", 1)[1] for a in argv if a.startswith("--benchmarks=")]
    if chosen:
        run_benchmarks(chosen[-1])
        return
    unittest.main(module="__main__", argv=argv)
