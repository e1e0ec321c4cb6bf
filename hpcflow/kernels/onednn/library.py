"""The oneDNN library: where it is found, and the C functions that are called.

It is looked for at ``HPCFLOW_ONEDNN`` (``0`` uses none), where the wheel ``onednn-cpu-gomp`` puts
it, and on the library path. Source: the C API of oneDNN 3.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
import warnings
from collections.abc import Iterator
from ctypes import POINTER, byref, c_char, c_float, c_int, c_int64, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

from hpcflow import config
from hpcflow.base.once import once
from hpcflow.base.wheel_files import paths_in
from hpcflow.host import openmp, signals
from hpcflow.kernels.onednn.team import Team

MAJOR = 3
#: The first version whose kernels keep the stack register for the stack.
_KEEPS_STACK = (3, 11, 0)
OFF = ("0", "off", "no", "false")  # values of the flag
_NAMES = ("libdnnl.so.3", "libdnnl.so", "libdnnl.3.dylib", "dnnl.dll")

_OUT, _DIMS, _MD, _PD = POINTER(c_void_p), POINTER(c_int64), c_void_p, c_void_p
_ENGINE, _ATTR, _KIND = c_void_p, c_void_p, c_int
_WINDOW = [_DIMS, _DIMS, _DIMS, _DIMS]

# Function -> the types of its arguments; all of them return a status.
_SIGNATURES: dict[str, list] = {
    "engine_create": [_OUT, c_int, c_size_t],
    "stream_create": [_OUT, _ENGINE, c_uint],
    "stream_wait": [c_void_p],
    "stream_destroy": [c_void_p],
    "memory_desc_create_with_strides": [_OUT, c_int, _DIMS, c_int, _DIMS],
    "memory_desc_create_with_tag": [_OUT, c_int, _DIMS, c_int, c_int],
    "memory_desc_clone": [_OUT, _MD],
    "memory_desc_destroy": [_MD],
    "memory_create": [_OUT, _MD, _ENGINE, c_void_p],
    "memory_set_data_handle": [c_void_p, c_void_p],
    "memory_destroy": [c_void_p],
    "primitive_attr_create": [_OUT],
    "set_primitive_cache_capacity": [c_int],
    "primitive_attr_set_scratchpad_mode": [_ATTR, c_int],
    "primitive_attr_set_post_ops": [_ATTR, c_void_p],
    "post_ops_create": [_OUT],
    "post_ops_append_eltwise": [c_void_p, _KIND, c_float, c_float],
    "post_ops_append_sum": [c_void_p, c_float, c_int, c_int],
    "primitive_desc_destroy": [_PD],
    "primitive_create": [_OUT, _PD],
    "primitive_execute": [c_void_p, c_void_p, c_int, c_void_p],
    "primitive_destroy": [c_void_p],
    "reorder_primitive_desc_create": [_OUT, _MD, _ENGINE, _MD, _ENGINE, _ATTR],
    "convolution_forward_primitive_desc_create":
        [_OUT, _ENGINE, _KIND, _KIND, _MD, _MD, _MD, _MD, *_WINDOW, _ATTR],
    "convolution_backward_data_primitive_desc_create":
        [_OUT, _ENGINE, _KIND, _MD, _MD, _MD, *_WINDOW, _PD, _ATTR],
    "convolution_backward_weights_primitive_desc_create":
        [_OUT, _ENGINE, _KIND, _MD, _MD, _MD, _MD, *_WINDOW, _PD, _ATTR],
    "pooling_forward_primitive_desc_create":
        [_OUT, _ENGINE, _KIND, _KIND, _MD, _MD, _DIMS, *_WINDOW, _ATTR],
    "pooling_backward_primitive_desc_create":
        [_OUT, _ENGINE, _KIND, _MD, _MD, _DIMS, *_WINDOW, _PD, _ATTR],
    "matmul_primitive_desc_create": [_OUT, _ENGINE, _MD, _MD, _MD, _MD, _ATTR],
    "lrn_forward_primitive_desc_create":
        [_OUT, _ENGINE, _KIND, _KIND, _MD, _MD, c_int64, c_float, c_float, c_float, _ATTR],
    "lrn_backward_primitive_desc_create":
        [_OUT, _ENGINE, _KIND, _MD, _MD, _MD, c_int64, c_float, c_float, c_float, _PD, _ATTR],
    "batch_normalization_forward_primitive_desc_create":
        [_OUT, _ENGINE, _KIND, _MD, _MD, c_float, c_uint, _ATTR],
    "batch_normalization_backward_primitive_desc_create":
        [_OUT, _ENGINE, _KIND, _MD, _MD, _MD, c_float, c_uint, _PD, _ATTR],
}  # fmt: skip

_SIZE = c_int64
_SGEMM = [c_char, c_char, _SIZE, _SIZE, _SIZE, c_float, c_void_p, _SIZE, c_void_p, _SIZE, c_float,
          c_void_p, _SIZE]

_CPU, _SCRATCHPAD_OF_USER = 1, 1
RELU = 0x20  # the algorithm
_AVX512 = 0x20  # of the instructions that the library uses


class OneDNNError(RuntimeError):
    """A function of oneDNN did not succeed."""


class Library:
    """The loaded library, with one engine, its threads (``team``; None if nothing is known of
    them), whether it computes with AVX-512 (``has_avx512``), and the attributes of primitives
    without and with a relu after them (``attr``, ``relu_attr``), and of those that add to what is
    there (``sum_attr``)."""

    def __init__(self, handle: Any, path: str, version: tuple[int, int, int]) -> None:
        self.path = path
        self.version = version
        self.team = Team.of(path)
        for name, types in _SIGNATURES.items():
            function = getattr(handle, f"dnnl_{name}")
            function.argtypes, function.restype = types, c_int
            setattr(self, f"_{name}", function)
        self.desc_query = handle.dnnl_primitive_desc_query_md
        self.desc_query.argtypes, self.desc_query.restype = [_PD, c_int, c_int], c_void_p
        self.desc_size = handle.dnnl_memory_desc_get_size
        self.desc_size.argtypes, self.desc_size.restype = [_MD], c_size_t
        self.desc_equal = handle.dnnl_memory_desc_equal
        self.desc_equal.argtypes, self.desc_equal.restype = [_MD, _MD], c_int
        self.sgemm = handle.dnnl_sgemm
        self.sgemm.argtypes, self.sgemm.restype = _SGEMM, c_int
        self.has_avx512 = bool(handle.dnnl_get_effective_cpu_isa() & _AVX512)
        self.execute = self._primitive_execute  # type: ignore[attr-defined]
        if version < _KEEPS_STACK:
            self.sgemm, self.execute = map(signals.undisturbed, (self.sgemm, self.execute))
        self.set_handle = self._memory_set_data_handle  # type: ignore[attr-defined]
        # Its own cache takes layouts that differ only along dimensions of one for the same, and so
        # returns primitives that expect another order of the filter. Ours is by shape and format.
        self.call("set_primitive_cache_capacity", 0)
        self.engine = self.create("engine_create", _CPU, 0)
        self.attr = self._attributes()
        self.relu_attr = self._attributes("eltwise", RELU, 0.0, 0.0)
        self.sum_attr = self._attributes("sum", 1.0, 0, 0)

    def _attributes(self, then: str = "", *numbers: float) -> c_void_p:
        """Attributes of primitives, `then` the operation that follows them."""
        attributes = self.create("primitive_attr_create")
        self.call("primitive_attr_set_scratchpad_mode", attributes, _SCRATCHPAD_OF_USER)
        if then:
            operations = self.create("post_ops_create")
            self.call(f"post_ops_append_{then}", operations, *numbers)
            self.call("primitive_attr_set_post_ops", attributes, operations)
        return attributes

    def call(self, name: str, *args: Any) -> None:
        """Call ``dnnl_<name>``; OneDNNError unless it succeeds."""
        status = getattr(self, f"_{name}")(*args)
        if status:
            raise OneDNNError(f"dnnl_{name} failed with status {status}")

    def create(self, name: str, *args: Any) -> c_void_p:
        """Call ``dnnl_<name>`` and return the handle that it stores through its first argument."""
        made = c_void_p()
        self.call(name, byref(made), *args)
        return made


def candidates() -> Iterator[tuple[str, str]]:
    """(where from, path) of every library that may be oneDNN, the preferred first."""
    if config.flags.onednn:
        yield "HPCFLOW_ONEDNN", config.flags.onednn
        return
    yield from (("wheel", path) for path in paths_in(["onednn-cpu-gomp"], _NAMES))
    for name in _NAMES:
        path = Path(sys.prefix) / "lib" / name
        if path.exists():
            yield "environment", str(path)
    found = ctypes.util.find_library("dnnl")
    if found:
        yield "library path", found
    yield "library path", _NAMES[0]


def _open(path: str) -> Library | None:
    try:
        with openmp.short_spins():
            handle = ctypes.CDLL(path)
        version = library_version(handle)
        return Library(handle, path, version) if version[0] == MAJOR else None
    except (OSError, AttributeError, OneDNNError):
        return None


def library_version(handle: Any) -> tuple[int, int, int]:
    """Major, minor and patch number of a loaded oneDNN; AttributeError if it is none."""
    handle.dnnl_version.restype = POINTER(c_int * 3)
    major, minor, patch = handle.dnnl_version().contents
    return major, minor, patch


@once  # handles of one library are of no use to another
def _load(chosen: str) -> Library | None:
    if chosen.lower() in OFF:
        return None
    if chosen:
        library = _open(chosen)
        if library is None:
            warnings.warn(f"HPCFLOW_ONEDNN={chosen!r} is no oneDNN {MAJOR} library; NumPy kernels "
                          "are used", RuntimeWarning, stacklevel=3)
        return library
    return next((lib for _, path in candidates() if (lib := _open(path)) is not None), None)


def load() -> Library | None:
    """The library, loaded on first use; None where there is none."""
    return _load(config.flags.onednn)
