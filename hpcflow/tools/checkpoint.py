"""``python -m hpcflow checkpoint``: list, verify, compare, convert and remove checkpoints.

A checkpoint is named by its path as ``Saver.save`` returns it, or by its file. The exit status is
0 if all is well, 1 if checkpoints are damaged (verify) or differ (diff), and 2 for an error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from hpcflow import dtypes, storage
from hpcflow.errors import DataLossError, OpError
from hpcflow.storage import CheckpointFile
from hpcflow.tools.cli import (
    CommandError,
    CommandParser,
    at_least_zero,
    command_parser,
    first_line,
    whole,
)
from hpcflow.train.checkpoint_files import remove_checkpoint
from hpcflow.train.checkpoint_state import get_checkpoint_state, update_checkpoint_state


def main(argv: Sequence[str] | None = None) -> int:
    """Run one of the commands; returns the exit status."""
    options = parser().parse_args(list(sys.argv[1:] if argv is None else argv))
    try:
        status, rows = options.run(options)
    except (OpError, OSError, ValueError) as error:
        raise CommandError(first_line(error)) from error
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            print(options.line(row))
    return int(status)


def parser() -> CommandParser:
    """The commands and their options."""
    made = command_parser("checkpoint", __doc__)
    commands = made.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, run: Callable, line: Callable, what: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=what, description=what)
        command.add_argument("--json", action="store_true", help="print a JSON list")
        command.set_defaults(run=run, line=line)
        return command

    one = add("ls", _ls, _ls_line, "list the variables of a checkpoint, or a directory's ones")
    one.add_argument("path", help="a checkpoint, or a directory of checkpoints")
    one = add("verify", _verify, _verify_line, "read all values and compare their checksums")
    one.add_argument("paths", nargs="+", metavar="path", help="checkpoints, or directories of them")
    one = add("diff", _diff, _diff_line, "compare two checkpoints")
    one.add_argument("first", help="a checkpoint")
    one.add_argument("second", help="the one to compare it with")
    one.add_argument("--tolerance", type=at_least_zero, default=0.0, metavar="X",
                     help="differences of numbers up to X are none")
    one = add("convert", _convert, _convert_line,
              "write a checkpoint in the other form: HDF5 or the bundles of other 1.x runtimes")
    one.add_argument("source", help="a checkpoint")
    one.add_argument("destination", help="the path of the new one")
    one.add_argument("--to", choices=("hdf5", "bundle"), help="by default what the source is not")
    one.add_argument("--force", action="store_true", help="replace a checkpoint")
    one = add("prune", _prune, _prune_line, "remove all checkpoints of a directory but the newest")
    one.add_argument("directory", help="a directory of checkpoints")
    one.add_argument("--keep", type=whole(1), default=5, metavar="N",
                     help="how many stay (default: 5)")
    one.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    return made


_Result = tuple[int, list[dict[str, Any]]]


def _prefix(path: str) -> str:
    """The checkpoint of a path, which may be that of one of its files."""
    for suffix in (".h5", ".index"):
        if path.endswith(suffix) and os.path.isfile(path):
            return path.removesuffix(suffix)
    return path


def _prefixes(path: str) -> list[str]:
    return storage.checkpoints_in(path) if os.path.isdir(path) else [_prefix(path)]


def _form(prefix: str) -> str:
    if os.path.isfile(storage.checkpoint_path(prefix)):
        return "hdf5"
    return "bundle" if os.path.isfile(prefix + ".index") else "first"


# ---------------------------------------------------------------- ls


def _ls(options: argparse.Namespace) -> _Result:
    if os.path.isdir(options.path):
        state = get_checkpoint_state(options.path)
        latest = os.path.abspath(state.model_checkpoint_path) if state else None
        return 0, [{"path": prefix, "form": _form(prefix),
                    "modified": storage.modification_time(prefix),
                    "latest": os.path.abspath(prefix) == latest}
                   for prefix in storage.checkpoints_in(options.path)]
    with storage.open_checkpoint(_prefix(options.path)) as reader:
        return 0, [_described(reader, name) for name in reader.names()]


def _described(reader: CheckpointFile, name: str) -> dict[str, Any]:
    dtype, shape = reader.dtype(name), reader.shape(name)
    size = None if dtype is dtypes.string else prod(shape) * dtype.size
    return {"name": name, "dtype": dtype.name, "shape": list(shape), "bytes": size}


def _ls_line(row: dict[str, Any]) -> str:
    if "path" in row:
        return f"{row['path']}  {row['form']}{'  latest' if row['latest'] else ''}"
    size = "" if row["bytes"] is None else f"  {row['bytes']} bytes"
    return f"{row['name']}  {row['dtype']} {row['shape']}{size}"


# ---------------------------------------------------------------- verify


def _verify(options: argparse.Namespace) -> _Result:
    rows = [_verified(prefix) for path in options.paths for prefix in _prefixes(path)]
    if not rows:
        raise CommandError(f"no checkpoint in {', '.join(options.paths)}")
    return int(not all(row["whole"] for row in rows)), rows


def _verified(prefix: str) -> dict[str, Any]:
    row: dict[str, Any] = {"path": prefix, "whole": True, "variables": 0, "error": None}
    try:
        with storage.open_checkpoint(prefix) as reader:
            for name in reader.names():
                reader.read(name)
                row["variables"] += 1
    except DataLossError as error:
        row.update(whole=False, error=error.message.splitlines()[0])
    return row


def _verify_line(row: dict[str, Any]) -> str:
    if row["whole"]:
        return f"{row['path']}: whole, {row['variables']} variables"
    return f"{row['path']}: damaged: {row['error']}"


# ---------------------------------------------------------------- diff


def _diff(options: argparse.Namespace) -> _Result:
    with (storage.open_checkpoint(_prefix(options.first)) as first,
          storage.open_checkpoint(_prefix(options.second)) as second):
        names = sorted({*first.names(), *second.names()})
        rows = [row for name in names
                if (row := _difference(first, second, name, options.tolerance)) is not None]
    return int(bool(rows)), rows


def _difference(first: CheckpointFile, second: CheckpointFile, name: str,
                tolerance: float) -> dict[str, Any] | None:
    """Describe the difference of a variable between two checkpoints; None if there is none."""
    if not (first.has(name) and second.has(name)):
        holder = first if first.has(name) else second
        return {"name": name, "difference": f"only in {holder.path}"}
    kinds = [_described(reader, name) for reader in (first, second)]
    if kinds[0] != kinds[1]:
        texts = [f"{kind['dtype']} {kind['shape']}" for kind in kinds]
        return {"name": name, "difference": f"{texts[0]}, then {texts[1]}"}
    before, after = first.read(name), second.read(name)
    count, largest = _compared(before, after, tolerance)
    if not count:
        return None
    text = f"{count} of {before.size} elements"
    if largest is not None:
        text += f", by up to {largest:g}"
    return {"name": name, "elements": count, "largest": largest, "difference": text}


def _compared(before: np.ndarray, after: np.ndarray, tolerance: float) -> tuple[int, float | None]:
    """Return the number of elements that differ, and the largest difference; NaN equals itself."""
    if before.dtype == object or before.dtype == bool:
        return int(np.count_nonzero(before != after)), None
    wide = np.complex128 if before.dtype.kind == "c" else np.float64
    unequal = (before != after) & ~((before != before) & (after != after))
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(before.astype(wide) - after.astype(wide))
    differing = unequal & ~(distance <= tolerance) if tolerance else unequal
    finite = distance[differing & np.isfinite(distance)]
    return int(np.count_nonzero(differing)), float(finite.max()) if finite.size else None


def _diff_line(row: dict[str, Any]) -> str:
    return f"{row['name']}: {row['difference']}"


# ---------------------------------------------------------------- convert


def _convert(options: argparse.Namespace) -> _Result:
    source, destination = _prefix(options.source), options.destination
    for suffix in (".h5", ".index"):
        destination = destination.removesuffix(suffix)
    form = options.to or ("bundle" if _form(source) == "hdf5" else "hdf5")
    write = {"hdf5": storage.write_hdf5, "bundle": storage.write_bundle}[form]
    in_place = os.path.abspath(source) == os.path.abspath(destination) and form != _form(source)
    if storage.checkpoint_exists(destination) and not options.force and not in_place:
        raise CommandError(f"there is a checkpoint '{destination}' already; --force replaces it")
    with storage.open_checkpoint(source) as reader:
        os.makedirs(os.path.dirname(destination) or ".", exist_ok=True)
        path = write(destination, reader)
        own = storage.checkpoint_path(destination)
        if form == "bundle" and not in_place and os.path.isfile(own):
            os.unlink(own)  # it would be read in the place of the bundle
        return 0, [{"path": path, "form": form, "variables": len(reader.names())}]


def _convert_line(row: dict[str, Any]) -> str:
    return f"{row['path']}: {row['variables']} variables"


# ---------------------------------------------------------------- prune


def _prune(options: argparse.Namespace) -> _Result:
    with storage.DirectoryLock(options.directory):
        found = storage.checkpoints_in(options.directory)
        state = get_checkpoint_state(options.directory)
        latest = os.path.abspath(state.model_checkpoint_path) if state else None
        old = [p for p in found[:-options.keep] if os.path.abspath(p) != latest]
        if state is not None and not options.dry_run:
            _forget(options.directory, state, old)
        if not options.dry_run:
            for prefix in old:
                remove_checkpoint(prefix)
    return 0, [{"path": prefix, "removed": not options.dry_run} for prefix in old]


def _forget(directory: str, state: Any, removed: list[str]) -> None:
    """Remove the checkpoints that are about to be deleted from the state of a directory."""
    gone = set(map(os.path.abspath, removed))
    paths, times = state.all_model_checkpoint_paths, list(state.all_model_checkpoint_timestamps)
    kept = [i for i, path in enumerate(paths) if os.path.abspath(path) not in gone]
    update_checkpoint_state(
        directory, state.model_checkpoint_path, [paths[i] for i in kept],
        all_model_checkpoint_timestamps=[times[i] for i in kept] if times else None,
        last_preserved_timestamp=state.last_preserved_timestamp, save_relative_paths=True)


def _prune_line(row: dict[str, Any]) -> str:
    return f"{row['path']}: {'removed' if row['removed'] else 'would be removed'}"
