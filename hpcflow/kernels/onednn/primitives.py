"""Primitives of oneDNN as functions of addresses, and descriptions of arrays.

A primitive is made once per shape and may run in several threads at once: every thread has
memory objects, a stream and scratch of its own.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from ctypes import c_int64, c_void_p
from typing import Any

import numpy as np

from hpcflow.host.memory import address_of
from hpcflow.kernels.onednn.library import Library, OneDNNError

_ANY, _STREAM_IN_ORDER = 1, 1
# The library's numbers of element types.
_TYPES = {"bfloat16": 2, "float32": 3, "int32": 4, "int8": 5, "uint8": 6}
_ALIGNMENT = 64

SRC, DST, WEIGHTS, WORKSPACE, SCRATCHPAD = 1, 17, 33, 64, 80
DIFF_SRC, DIFF_DST, DIFF_WEIGHTS = 129, 145, 161
BIAS, DIFF_BIAS = 41, 169
MEAN, VARIANCE, SCALE, SHIFT, DIFF_SCALE, DIFF_SHIFT = 49, 50, 51, 52, 255, 256
FORWARD_TRAINING, FORWARD_INFERENCE, BACKWARD = 64, 96, 128
# Queries of a primitive's descriptions of memory.
SRC_MD, WEIGHTS_MD, DIFF_WEIGHTS_MD, DIFF_DST_MD = 129, 131, 132, 134
WORKSPACE_MD, SCRATCHPAD_MD = 135, 136


def vector(values: Sequence[int]) -> Any:
    """An array of the library's dimensions."""
    return (c_int64 * len(values))(*values)


def image_strides(dims: Sequence[int], channels_first: bool) -> tuple[int, ...]:
    """The strides, in elements, of a contiguous array for the logical dims [N, C, *space]."""
    _, channels, *space = dims
    order = [*space] if channels_first else [*space, channels]
    inner = [math.prod(order[i + 1 :]) for i in range(len(space))]
    size = math.prod(space)
    return (size * channels, size if channels_first else 1, *inner)


class Description:
    """A memory descriptor: dims, type and strides of an array, or a layout for oneDNN to choose."""

    def __init__(self, lib: Library, dims: Sequence[int], strides: Sequence[int] | None = None,
                 dtype: str = "float32") -> None:
        self.lib = lib
        number = _TYPES[dtype]
        if strides is None:
            self.handle = lib.create("memory_desc_create_with_tag", len(dims), vector(dims), number,
                                     _ANY)
        else:
            self.handle = lib.create("memory_desc_create_with_strides", len(dims), vector(dims),
                                     number, vector(strides))

    @classmethod
    def chosen(cls, primitive_desc: Any, lib: Library, query: int) -> Description:
        """Return a descriptor of the layout that a primitive chose."""
        made = cls.__new__(cls)
        made.lib = lib
        made.handle = lib.create("memory_desc_clone", lib.desc_query(primitive_desc, query, 0))
        return made

    @property
    def bytes(self) -> int:
        """Return the size in bytes of an array with this layout."""
        return self.lib.desc_size(self.handle)

    def same_as(self, other: Description) -> bool:
        """True if both lie alike."""
        return bool(self.lib.desc_equal(self.handle, other.handle))

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.lib.call("memory_desc_destroy", self.handle)


class _Argument(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int), ("memory", c_void_p)]


def aligned(size: int) -> np.ndarray:
    """`size` bytes that start at a cache line."""
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    start = -address_of(raw) % _ALIGNMENT
    return raw[start : start + size]


class _Thread(threading.local):
    """Per thread: a stream, and scratch that grows to the largest that was asked for."""

    def __init__(self) -> None:
        self.stream: Any = None
        self.buffers: dict[str, np.ndarray] = {}

    def buffer(self, name: str, size: int) -> int:
        """The address of at least `size` bytes, which stay the caller's until the next call."""
        found = self.buffers.get(name)
        if found is None or found.size < size:
            found = self.buffers[name] = aligned(size)
        return address_of(found)


thread = _Thread()


class Primitive:
    """A primitive as a function of the addresses of its arguments, in the order given.

    Args:
        lib: the library.
        desc: the primitive's description, which is destroyed here.
        arguments: (index of the argument, its description) in the order of the addresses.
    """

    def __init__(self, lib: Library, desc: Any,
                 arguments: Sequence[tuple[int, Description]]) -> None:
        self.lib = lib
        self.arguments = list(arguments)
        scratch = Description.chosen(desc, lib, SCRATCHPAD_MD)
        self.scratch_bytes = scratch.bytes
        if self.scratch_bytes:
            self.arguments.append((SCRATCHPAD, scratch))
        self.handle = lib.create("primitive_create", desc)
        lib.call("primitive_desc_destroy", desc)
        self._local = threading.local()

    def __call__(self, *addresses: int) -> None:
        """Run; returns when the outputs are there."""
        lib, local = self.lib, self._local
        try:
            memories = local.memories
        except AttributeError:
            memories = local.memories = _Memories(self)
        if self.scratch_bytes:
            addresses = *addresses, thread.buffer("scratch", self.scratch_bytes)
        if memories.addresses != addresses:
            memories.point_to(addresses)
        if thread.stream is None:
            thread.stream = lib.create("stream_create", lib.engine, _STREAM_IN_ORDER)
        status = lib.execute(self.handle, thread.stream, len(memories.handles), memories.array)
        if status:
            raise OneDNNError(f"dnnl_primitive_execute failed with status {status}")

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.lib.call("primitive_destroy", self.handle)


class _Memories:
    """The memory objects of a primitive's arguments in one thread."""

    def __init__(self, primitive: Primitive) -> None:
        self.lib = primitive.lib
        self.handles = [self.lib.create("memory_create", d.handle, self.lib.engine, None)
                        for _, d in primitive.arguments]
        self.array = (_Argument * len(self.handles))(*[
            _Argument(index, memory.value)
            for (index, _), memory in zip(primitive.arguments, self.handles)])
        self.addresses: tuple[int | None, ...] = (None,) * len(self.handles)

    def point_to(self, addresses: tuple[int, ...]) -> None:
        """Set the address of each memory object; skip those whose address is unchanged."""
        for memory, before, address in zip(self.handles, self.addresses, addresses):
            if before != address:
                self.lib.set_handle(memory, address)
        self.addresses = addresses

    def __del__(self) -> None:
        for memory in getattr(self, "handles", ()):
            self.lib.call("memory_destroy", memory)


def reorder(lib: Library, source: Description, target: Description) -> Primitive | None:
    """A primitive that copies from one layout to another; None if they are the same."""
    if source.same_as(target):
        return None
    desc = lib.create("reorder_primitive_desc_create", source.handle, lib.engine, target.handle,
                      lib.engine, lib.attr)
    return Primitive(lib, desc, [(SRC, source), (DST, target)])
