"""The rooms of hpcflow and what each may import: the table that `test_layers` holds the code to.

``python tests/layers.py`` prints it as the table of ``docs/architecture.md``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "hpcflow"

#: The modules of the package's own folder that are public names.
VOCABULARY = {"config", "errors", "dtypes", "shapes", "device_spec", "version"}
#: What everything may import.
LEVEL_0 = ["host.tuning", "base", "vocabulary", "base.geometry", "base.formats"]

# Room: the rooms that it may import besides those of level 0. A room names only rooms above it, so
# that there is no circle; ``ops.*`` stands for all rooms inside ops so far, and so on. A room
# without a line of its own has that of the room around it.
TABLE = """
host.tuning:
base:
vocabulary: base
base.geometry: vocabulary
base.formats: vocabulary
host:
loops: host
comm:
storage: comm host
resources.datasets:
resources: comm host resources.datasets
graph: host
ops.common: graph
ops.arrays: graph ops.common
ops.flow: graph ops.common
ops.math: graph ops.common ops.flow
ops.linalg: graph ops.common ops.arrays ops.flow ops.math
ops.image: graph ops.common
ops.random: graph ops.common ops.flow
ops.sparse: graph ops.common ops.flow
ops.strings: graph ops.common
ops.nn: graph ops.common ops.arrays ops.image
ops.quantized: graph ops.common ops.arrays ops.nn
ops.state: graph ops.common ops.arrays ops.flow ops.random
ops.io: graph ops.common ops.flow ops.random ops.sparse
ops.training: graph ops.common
ops.compat: graph ops.common ops.arrays ops.linalg ops.state
ops: graph ops.*
autodiff: graph ops.*
framework: graph ops.*
nn: graph ops.* autodiff
spectral: graph ops.*
signal: graph ops.*
optimizers: graph ops.* autodiff
losses: graph ops.* nn
image: graph ops.* nn
metrics: graph ops.* nn
layers: graph ops.* nn framework
data: graph ops.* framework
linear_operators: graph ops.*
kernels: host
kernels.cublas: kernels
kernels.common: host loops resources kernels
kernels.compiled: host loops kernels kernels.*
kernels.random: host loops kernels kernels.*
kernels.math: host loops kernels kernels.*
kernels.arrays: host loops resources storage kernels kernels.*
kernels.linalg: host loops kernels kernels.*
kernels.image: host loops kernels kernels.*
kernels.strings: kernels kernels.*
kernels.sparse: resources kernels kernels.*
kernels.flow: host loops resources kernels kernels.*
kernels.state: host loops resources kernels kernels.*
kernels.nn: host loops resources kernels kernels.*
kernels.quantized: host loops kernels kernels.*
kernels.io: resources resources.datasets storage kernels kernels.*
kernels.training: host loops resources storage kernels kernels.*
kernels.compat: kernels kernels.*
kernels.onednn: host loops resources kernels kernels.*
kernels.cudnn: kernels kernels.*
compiler.ir: graph kernels
compiler.distribute: graph kernels compiler.ir
compiler.fuse: graph host kernels compiler.ir
compiler.regions: graph host loops kernels compiler.ir compiler.distribute
compiler.rewrite: graph ops.flow host kernels compiler.ir compiler.regions
compiler.trace: graph loops kernels compiler.ir compiler.regions
compiler.native: graph host loops kernels kernels.common compiler.ir compiler.distribute \
    compiler.regions compiler.trace
compiler.device: graph host loops resources kernels kernels.* compiler.ir compiler.regions \
    compiler.trace
compiler.emit: graph host kernels compiler.*
compiler: graph kernels compiler.*
simulator: graph compiler compiler.*
runtime:
runtime.wire: graph host comm compiler.ir compiler.emit
runtime.executor: host loops comm resources kernels compiler.ir compiler.emit runtime.wire
runtime.collective: host comm kernels runtime.wire
runtime.steps: graph ops.flow host kernels resources compiler compiler.* runtime.*
runtime.cluster: graph host comm kernels resources compiler compiler.* runtime.*
runtime.session: graph ops.flow host loops kernels resources compiler compiler.* runtime.*
metagraph: graph ops.* storage compiler.distribute
summary: graph ops.* metagraph storage
mpi: graph ops.* autodiff optimizers framework host loops comm compiler.distribute runtime.*
train: graph ops.* framework optimizers layers storage comm runtime.* metagraph summary
saved_model: graph ops.* storage metagraph train
graph_util: graph ops.* storage metagraph train kernels compiler compiler.*
extending: graph kernels runtime.executor
placement: graph kernels compiler compiler.* simulator
api: graph
platform: graph ops.* storage runtime.* api
api.compat: platform
distribute: graph ops.* framework data runtime.* mpi train platform
profiler: *
contrib: *
feature_column: *
distributions: *
estimator: *
keras: *
test_util: *
tools: *
package: *
"""

#: Third-party packages that only these rooms may import.
OWNERS = {
    "mpi4py": ["comm"],
    "h5py": ["storage"],
    "google_crc32c": ["storage"],
    "llvmlite": ["loops"],
    "ctypes": ["host", "loops", "comm", "tools", "kernels.onednn", "kernels.cudnn",
               "kernels.cublas"],
}
#: What `import hpcflow` must not load: slow, large, or not installed everywhere.
HEAVY = ["mpi4py", "h5py", "llvmlite", "tensorboard", "google.protobuf", "cupy", "scipy", "PIL"]
MOST_FILES = 40  # of a folder


# Names that say that a number is a size, a threshold or a time: it belongs into host.tuning, ...
TUNED = ("BYTES", "SECONDS", "LARGE", "SMALL", "LEAST", "MOST", "FEWEST", "LIMIT")
# ... unless it follows from a format, a library, the language or a formula, and nobody may tune it.
NOT_TUNED = {
    "base.formats.array_protos": "_MOST_BYTES",  # of a protobuf
    "comm.buffers": "MAX_CHUNK_BYTES",  # MPI's counts
    "comm.mpi_control": "SHORT_BYTES",  # the messages of every step have this length
    "comm.reduction": "_MOST_EXACT",
    "comm.shared_memory": "_TOKEN_BYTES",
    "comm.world": "_VERSION_BYTES",
    "compiler.regions.structure": "_MOST_LOOPS _MOST_LEVELS",  # Python nests no deeper
    "contrib.rnn.block_cells": "NO_LIMIT",
    "graph.tensor_proto": "MOST_BYTES",  # of a protobuf
    "host.fp_mode": "_BYTES",  # of the C library, as are the next two
    "host.malloc_policy": "_LIMIT",
    "host.signals": "_SET_BYTES",
    "kernels.common.sizes": "_MOST",
    "train.embedding_files": "_MOST_ROWS",  # that the page takes
    "kernels.cudnn.library": "_MOST_WAYS",  # more than there are
    "kernels.cudnn.transposing": "_MOST",  # CUDA's
    "kernels.image.png": "_LIMIT",
    "kernels.math.bessel_functions": "_LIMIT",
    "kernels.math.gamma_derivatives": "LARGE",
    "kernels.random.numbers": "_SMALLEST",
    "kernels.random.rejection": "_SMALLEST SMALL_RATE",  # of the algorithms
    "kernels.sparse.ragged": "_MOST",
    "kernels.sparse.sparse_cross": "_LARGEST",
    "nn.fused_normalization": "_LEAST_EPSILON",
    "storage.hdf5": "_ATTRIBUTE_BYTES",  # of HDF5, as are the next ones
    "storage.index": "_MOST_DIMENSIONS _LARGEST",
    "storage.layer_files": "_LIMIT",
    "storage.plain_hdf5": "_ATTRIBUTE_BYTES",
    "tools.bench.elementwise": "LARGE SMALL",
}


class Import(NamedTuple):
    """An import statement: the module it stands in, its line, and what it imports."""

    importer: str
    line: int
    imported: str


def _read_table() -> dict[str, list[str] | None]:
    """Room -> the rooms that it may import (None: all), as they are written."""
    rows = [line.partition(":") for line in TABLE.strip().splitlines()]
    return {room: None if names.split() == ["*"] else names.split() for room, _, names in rows}


ROOMS = _read_table()


def allowed(room: str) -> set[str] | None:
    """The rooms that `room` may import, itself included; None if it may import all."""
    names = ROOMS[room]
    if names is None:
        return None
    above = list(ROOMS)[: list(ROOMS).index(room)]
    found = {room, *LEVEL_0[: LEVEL_0.index(room)]} if room in LEVEL_0 else {room, *LEVEL_0}
    for name in names:
        found |= {r for r in above if fnmatch(r, name)}
    return found


def room_of(module: str) -> str:
    """The room of a module: ``graph`` for ``hpcflow.graph.opdef``."""
    names = module.split(".")[1:]
    if not names or names == ["__main__"] or names == ["__init__"]:
        return "package"
    if len(names) == 1 and names[0] in VOCABULARY:
        return "vocabulary"
    for n in range(len(names), 0, -1):
        if ".".join(names[:n]) in ROOMS:
            return ".".join(names[:n])
    return names[0]


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name; a package has the name of its folder."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        names = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(names[:-1] if names[-1] == "__init__" else names)] = path
    return found


def is_type_checking(node: ast.AST) -> bool:
    """True for an ``if TYPE_CHECKING:`` statement."""
    if not isinstance(node, ast.If):
        return False
    test = node.test
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes below `tree`, without the bodies of ``if TYPE_CHECKING:``."""
    for child in ast.iter_child_nodes(tree):
        if is_type_checking(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield other
                yield from nodes_that_run(other)
        else:
            yield child
            yield from nodes_that_run(child)


def imports_of(module: str, path: Path, known: dict[str, Path]) -> Iterator[Import]:
    """The imports of a file, those inside functions and by ``import_module("...")`` too."""
    for node in nodes_that_run(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (Import(module, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            # `from hpcflow.kernels import registry` imports a module, most others a name.
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield Import(module, node.lineno, full if full in known else base)
        elif isinstance(node, ast.Call) and _is_import_module(node):
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield Import(module, node.lineno, name.value)


def _is_import_module(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name == "import_module" and bool(node.args)


def all_imports() -> list[Import]:
    """The imports of all files of the package."""
    known = modules()
    return [found for module, path in known.items() for found in imports_of(module, path, known)]


def violation(importer: str, imported: str) -> str | None:
    """Why `importer` may not import `imported`, or None if it may."""
    room, outside = room_of(importer), imported.split(".")[0]
    owners = OWNERS.get(outside)
    if owners:
        inside = any(room == owner or room.startswith(f"{owner}.") for owner in owners)
        return None if inside else f"only {', '.join(owners)} may"
    if outside != "hpcflow":
        return None
    may, target = allowed(room), room_of(imported)
    if may is None or target in may:
        return None
    if target == "package":
        return "only the outermost rooms may import the whole package"
    return f"{room} may import {', '.join(sorted(may - {room} - set(LEVEL_0))) or 'level 0 only'}"


def path_strings(module: str, path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every string of a file that is the path of a module of ours."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(
                r"hpcflow(\.[a-z_0-9]+)+(:\w+)?\.?", node.value):
            yield node.lineno, node.value


def tuned_numbers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of every number that a module gives a name which says that it was tuned."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else (
            [node.target] if isinstance(node, ast.AnnAssign) else [])
        for target in targets:
            for name, value in _pairs(target, node.value):  # type: ignore[attr-defined]
                if any(word in name for word in TUNED) and _is_number(value):
                    yield node.lineno, name


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name) and value is not None:
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, its)


def _is_number(value: ast.expr) -> bool:
    """True for a number, for several, and for what is computed of numbers and names."""
    if isinstance(value, ast.Tuple):
        return all(map(_is_number, value.elts))
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) or _is_number(value.right)
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def tuning_at_import(tree: ast.AST) -> Iterator[int]:
    """Lines that read ``tuning.NAME`` while their module is imported, the defaults of functions
    among them: who sets NAME later does not reach the copy."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            kept = [d for d in (*child.args.defaults, *child.args.kw_defaults) if d is not None]
            yield from (line for default in kept for line in tuning_at_import(ast.Expr(default)))
            continue
        if isinstance(child, ast.Attribute) and isinstance(child.value, ast.Name) and (
                child.value.id.endswith("tuning")):
            yield child.lineno
        yield from tuning_at_import(child)


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The circles of a graph of names: its strongly connected parts of more than one name."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_names: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        open_names.append(name)
        for other in edges.get(name, ()):
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in open_names:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            part = open_names[open_names.index(name) :]
            del open_names[open_names.index(name) :]
            if len(part) > 1:
                found.append(sorted(part))

    for name in edges:
        if name not in number:
            visit(name)
    return found


def markdown() -> str:
    """The table of rooms as it stands in ``docs/architecture.md``."""
    lines = ["| room | may import, besides level 0 |", "|---|---|"]
    for room, names in ROOMS.items():
        if room not in LEVEL_0:
            told = "everything" if names is None else ", ".join(f"`{n}`" for n in names) or "–"
            lines.append(f"| `{room}` | {told} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
