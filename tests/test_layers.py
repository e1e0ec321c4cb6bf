"""The layers of the project, checked against its import statements.

Each package has a level; it may import level 0, its own modules, and what `ALLOWED` names. Imports
inside functions count too; those under ``if TYPE_CHECKING:`` do not.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "hpcflow"

LEVEL_0 = {
    "config", "errors", "dtypes", "shapes", "strided", "device_spec", "tracing", "version",
    "windows", "protos", "array_protos", "callbacks", "diagonals", "deferred", "other_names",
    "jit", "native",
}  # fmt: skip
CORE = {"graph", "ops"}
GRADIENTS = {"autodiff", "nn", "framework"}
USERS = {"optimizers", "layers", "losses", "metrics", "summary_ops", "spectral", "image", "data",
         "signal"}
BELOW_RUNTIME = {"comm", "storage", "resources", "kernels", "compiler"}
TOP = {"train", "summary", "mpi", "tools", "graph_util", "platform", "test_util", "user_ops",
       "placement", "python", "core", "saved_model", "extending", "compat", "contrib",
       "feature_column", "distributions", "estimator", "keras",
       "profiler",
       "__init__", "__main__"}

# Part of hpcflow -> the parts (besides level 0 and itself) that it may import.
ALLOWED: dict[str, set[str]] = {
    **{name: set() for name in LEVEL_0},
    "graph": set(),
    "comm": set(),
    "storage": {"comm"},
    "resources": {"comm"},
    "ops": {"graph"},
    "kernels": {"resources", "storage"},
    **dict.fromkeys(GRADIENTS, CORE),
    **dict.fromkeys(USERS, CORE | GRADIENTS),
    "signal": CORE | GRADIENTS | {"spectral"},
    "compiler": CORE | {"kernels.registry", "kernels.input_shapes", "kernels.late_errors"},
    "simulator": CORE | {"compiler"},
    "runtime": CORE | GRADIENTS | USERS | BELOW_RUNTIME,
}
EVERYTHING = set(ALLOWED) | TOP
ALLOWED |= dict.fromkeys(TOP, EVERYTHING)

# Third-party packages that only one part of hpcflow may import.
OWNERS = {"mpi4py": "comm", "h5py": "storage"}
# What `import hpcflow` must not load: slow, large, or not installed everywhere.
HEAVY = ["mpi4py", "h5py", "numba", "tensorboard", "google.protobuf", "cupy", "scipy", "PIL"]


def module_name(path: Path) -> str:
    """``hpcflow.graph.opdef`` for ``hpcflow/graph/opdef.py``; a package keeps ``__init__``."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def part_of(module: str) -> str:
    """The part of hpcflow that a module belongs to: ``graph`` for ``hpcflow.graph.opdef``."""
    names = module.split(".")
    return names[1] if len(names) > 1 else "__init__"


def is_type_checking(node: ast.AST) -> bool:
    """Whether `node` is an ``if TYPE_CHECKING:`` statement."""
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


def is_module(name: str) -> bool:
    """Whether `name` (dotted, from ``hpcflow`` on) is a module or package of the project."""
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that `path` imports."""
    for node in nodes_that_run(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module_name(path).split(".")[: -node.level]
                base = ".".join([*parents, base]).rstrip(".")
            # `from hpcflow.kernels import registry` imports a module, most others a name.
            for alias in node.names:
                full = f"{base}.{alias.name}"
                is_ours = base.split(".")[0] == "hpcflow"
                yield node.lineno, full if is_ours and is_module(full) else base


def violation(importer: str, imported: str) -> str | None:
    """Why `importer` may not import `imported`, or None if it may."""
    part = part_of(importer)
    owner = OWNERS.get(imported.split(".")[0])
    if owner:
        return None if part == owner else f"only hpcflow/{owner}/ may"
    if imported.split(".")[0] != "hpcflow":
        return None
    target = part_of(imported)
    if target == "__init__":
        return None if part in TOP else "only the top level may import the whole package"
    if target == part or target in LEVEL_0 or target in ALLOWED[part]:
        return None
    if any(imported == f"hpcflow.{name}" for name in ALLOWED[part]):
        return None
    return f"{part} may import {', '.join(sorted(ALLOWED[part])) or 'only level 0'}"


def python_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_every_part_has_a_level() -> None:
    parts = {part_of(module_name(path)) for path in python_files()}
    assert parts <= EVERYTHING, f"not in the table of levels: {sorted(parts - EVERYTHING)}"


def test_imports_follow_the_levels() -> None:
    problems = []
    for path in python_files():
        importer = module_name(path)
        if part_of(importer) not in ALLOWED:
            continue
        for line, imported in imports_of(path):
            if why := violation(importer, imported):
                problems.append(f"{path.relative_to(ROOT)}:{line} imports {imported}: {why}")
    assert not problems, "\n" + "\n".join(dict.fromkeys(problems))


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("hpcflow.graph.graph", "hpcflow.dtypes", True),
        ("hpcflow.graph.graph", "hpcflow.ops.math", False),
        ("hpcflow.ops.math", "hpcflow.graph.opdef", True),
        ("hpcflow.ops.math", "hpcflow.kernels.registry", False),
        ("hpcflow.storage.writer", "hpcflow.comm.world", True),
        ("hpcflow.storage.writer", "hpcflow.resources.variables", False),
        ("hpcflow.compiler.fold", "hpcflow.kernels.registry", True),
        ("hpcflow.compiler.fold", "hpcflow.kernels.math", False),
        ("hpcflow.compiler.fold", "hpcflow.kernels", False),
        ("hpcflow.runtime.session", "hpcflow.compiler.passes", True),
        ("hpcflow.runtime.session", "hpcflow.train.saver", False),
        ("hpcflow.runtime.session", "hpcflow", False),
        ("hpcflow.tools.doctor", "hpcflow", True),
        ("hpcflow.runtime.session", "mpi4py.MPI", False),
        ("hpcflow.comm.world", "mpi4py.MPI", True),
        ("hpcflow.tools.doctor", "h5py", False),
        ("hpcflow.tools.doctor", "numpy", True),
    ],
)
def test_the_rules_themselves(importer: str, imported: str, allowed: bool) -> None:
    assert (violation(importer, imported) is None) == allowed


def test_lazy_imports_count_and_type_checking_does_not() -> None:
    source = "\n".join(
        [
            "from typing import TYPE_CHECKING",
            "if TYPE_CHECKING:",
            "    import hidden",
            "else:",
            "    import shown",
            "def function():",
            "    import lazy",
        ]
    )
    names = [
        alias.name
        for node in nodes_that_run(ast.parse(source))
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    assert names == ["shown", "lazy"]


def test_import_hpcflow_is_light() -> None:
    program = (
        "import json, sys; before = set(sys.modules); import hpcflow; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    loaded = json.loads(result.stdout)
    heavy = [
        name for name in loaded if name in HEAVY or name.startswith(tuple(f"{h}." for h in HEAVY))
    ]
    assert not heavy, f"import hpcflow loads {heavy}"
