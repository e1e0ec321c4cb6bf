"""Kernels of checkpoints written in stages: create, write, commit; and of reading with checks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from hpcflow import storage
from hpcflow.errors import FailedPreconditionError, InvalidArgumentError
from hpcflow.kernels.common.background import in_background
from hpcflow.kernels.common.text import as_bytes, as_text
from hpcflow.kernels.registry import ASYNC, KernelNode, kernel
from hpcflow.resources.variables import VariableState
from hpcflow.shapes import TensorShape, format_shape


@kernel("_VariableSnapshot", "_HandleSnapshot")
def _snapshot(node: KernelNode) -> Callable:
    def snapshot(state: VariableState) -> Any:
        # An update that is under way changes the array in place; later ones see that it is held.
        with state.lock:
            return state.read()

    return snapshot


def make_directory(path: str) -> None:
    """Make the directory of a file, unless it exists; not those above it."""
    with suppress(OSError):  # what is wrong with the directory shows when the file is made
        os.mkdir(os.path.dirname(path))


@kernel("_CheckpointCreate", device="CPU", mode=ASYNC)
def _create(node: KernelNode) -> Callable:
    names = [name.decode() for name in node.attr("names")]
    types, shapes = node.attr("dtypes"), node.attr("shapes")

    def create(step: Any, prefix: Any, *dynamic: np.ndarray) -> bytes:
        given = iter(dynamic)
        dims = [_full_shape(s, given) for s in shapes]
        path = storage.checkpoint_path(as_text(prefix))
        make_directory(path)
        layout = storage.create(path, zip(names, types, dims, strict=True))
        # After the commit this finds nothing to remove.
        step.on_finish_hooks.append(lambda: storage.abandon(layout))
        return layout.to_bytes()

    return in_background(create, with_step=True)


def _full_shape(declared: TensorShape, given: Iterator[np.ndarray]) -> list:
    return declared.as_list() if declared.is_fully_defined() else next(given).tolist()


@kernel("_CheckpointWrite", device="CPU", mode=ASYNC)
def _write(node: KernelNode) -> Callable:
    names = [name.decode() for name in node.attr("names")]
    slices = [text.decode() or None for text in node.attr("slices")]

    def write(layout: Any, *values: Any) -> bytes:
        return storage.write(as_bytes(layout), zip(names, slices, values, strict=True))

    return in_background(write)


# ---------------------------------------------------------------- saving in the background

_HELD = "held checkpoint"
_PART = re.compile(r"(_\d+)?$")


def _held_name(node: KernelNode, path: str) -> str:
    """Return the name of the snapshot that a saver holds on this task for the checkpoint `path`:
    the operations of one part have names that end alike. A task that took the place of a lost one
    holds that one's part beside its own."""
    scope, _, own = node.name.rpartition("/")
    return f"{scope}\n{_PART.search(own)[0]}\n{path}"  # type: ignore[index]


def _full_path(prefix: Any) -> str:
    return os.path.abspath(storage.checkpoint_path(as_text(prefix)))


@kernel("_CheckpointHold", device="CPU", mode=ASYNC)
def _hold(node: KernelNode) -> Callable:
    def hold(step: Any, done: Callable[[Any], None], prefix: Any, *values: Any) -> None:
        name = _held_name(node, _full_path(prefix))
        node.resources.lookup_or_create("", _HELD, name, dict)["values"] = list(values)
        done(None)

    return hold


@kernel("_CheckpointWriteHeld", device="CPU", mode=ASYNC)
def _write_held(node: KernelNode) -> Callable:
    names = [name.decode() for name in node.attr("names")]
    slices = [text.decode() or None for text in node.attr("slices")]

    def write(layout: Any) -> bytes:
        plan = storage.Layout.from_bytes(as_bytes(layout))
        name = _held_name(node, plan.path)
        held = node.resources.lookup("", _HELD, name)
        if held is None:
            raise FailedPreconditionError(
                None, None, f"saving '{plan.path}': the values to be written are not held")
        node.resources.delete("", _HELD, name)
        return storage.write(plan, zip(names, slices, held["values"], strict=True))

    return in_background(write)


@kernel("_CheckpointRelease", device="CPU")
def _release(node: KernelNode) -> Callable:
    def release(prefix: Any) -> None:
        node.resources.delete("", _HELD, _held_name(node, _full_path(prefix)))

    return release


@kernel("_CheckpointCommit", device="CPU", mode=ASYNC)
def _commit(node: KernelNode) -> Callable:
    def commit(layout: Any, *records: Any) -> bytes:
        return storage.commit(as_bytes(layout), map(as_bytes, records)).encode()

    return in_background(commit)


@kernel("_CheckpointRead", device="CPU", mode=ASYNC)
def _read(node: KernelNode) -> Callable:
    names = [name.decode() for name in node.attr("names")]
    slices = [text.decode() or None for text in node.attr("slices")]
    wanted = list(zip(names, slices, node.attr("dtypes"), node.attr("shapes"), strict=True))
    reshape = node.attr("reshape")

    def read(prefix: Any) -> Any:
        with storage.open_checkpoint(as_text(prefix)) as reader:
            values = reader.read_many(_asked(*item, reshape) for item in wanted)
            values = [_fitted(reader, *item, reshape) for item in zip(values, wanted)]
        return values[0] if len(values) == 1 else tuple(values)

    return in_background(read)


def _asked(name: str, spec: str | None, dtype: Any, shape: TensorShape,
           reshape: bool) -> tuple[str, str | None, Any, Any]:
    """What the reader is asked for, with the shape if it is known."""
    dims = shape.as_list() if shape.is_fully_defined() and not reshape else None
    return name, spec, dtype, dims


def _fitted(reader: storage.CheckpointFile, value: Any, wanted: tuple[str, Any, Any, TensorShape],
            reshape: bool) -> Any:
    """One tensor, checked to be of the shape as far as that is known."""
    name, _, _, shape = wanted
    if reshape and shape.is_fully_defined():
        if value.size != shape.num_elements():
            raise _does_not_fit(reader, name, value, shape, "as many elements")
        value = value.reshape(shape.as_list())
    elif not shape.is_compatible_with(value.shape):
        raise _does_not_fit(reader, name, value, shape, "a compatible shape")
    return value if value.ndim else value[()]


def _does_not_fit(reader: storage.CheckpointFile, name: str, value: np.ndarray, shape: TensorShape,
                  what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        None, None, f"restoring '{name}' from checkpoint '{reader.path}': it has shape "
        f"{format_shape(value.shape)}, the variable {format_shape(shape)}; expected {what}")
