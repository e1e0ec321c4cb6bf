"""Compiles CUDA source without a GPU: the compiler of NVIDIA's wheel needs no driver."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from hpcflow.loops import cuda_code

ARCHITECTURE = "sm_90"


_compiled: set[str] = set()


def check(sources: Iterable[str]) -> None:
    """Raise for the first of `sources` that NVRTC does not compile; what it has is not asked again.
    """
    for source in sources:
        if source not in _compiled:
            wrong = errors(source, *cuda_code.OPTIONS)
            assert not wrong, f"{source}\n{wrong}"
            _compiled.add(source)


@functools.cache
def _library() -> Any:
    """NVRTC of the package nvidia-cuda-nvrtc, which `make test-gpu` installs."""
    files = metadata.files("nvidia-cuda-nvrtc") or []
    found = [f for f in files if f.name.startswith("libnvrtc.so.")]
    return ctypes.CDLL(str(found[0].locate()))


def errors(source: str, *options: str) -> str:
    """What NVRTC has against `source`; empty if it compiles."""
    nvrtc, program, size = _library(), ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    words = [o.encode() for o in (f"--gpu-architecture={ARCHITECTURE}", "-w", *options)]
    status = nvrtc.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return f"status {status}: {log.value.decode()}" if status else ""
