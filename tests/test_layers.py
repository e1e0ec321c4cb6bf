"""The rules of the rooms, checked against the import statements (see `layers`)."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from fnmatch import fnmatch

import layers
import pytest
from speed import patience


def told(problems: list[str]) -> str:
    return "\n" + "\n".join(dict.fromkeys(problems))


def test_every_room_has_a_line() -> None:
    rooms = {layers.room_of(module) for module in layers.modules()}
    assert rooms <= set(layers.ROOMS), f"not in the table: {sorted(rooms - set(layers.ROOMS))}"


def test_rooms_name_only_rooms_above_them() -> None:
    order = list(layers.ROOMS)
    problems = [f"{room} names {name}, which is not above it"
                for n, room in enumerate(order) for name in layers.ROOMS[room] or ()
                if not any(fnmatch(r, name) for r in order[:n])]
    assert not problems, told(problems)


def test_imports_follow_the_table() -> None:
    problems = [f"{found.importer}:{found.line} imports {found.imported}: {why}"
                for found in layers.all_imports()
                if (why := layers.violation(found.importer, found.imported))]
    assert not problems, told(problems)


def test_no_circle_of_files() -> None:
    known = layers.modules()
    edges: dict[str, set[str]] = {module: set() for module in known}
    for found in layers.all_imports():
        if found.imported in known and found.imported not in (found.importer, "hpcflow"):
            edges[found.importer].add(found.imported)
    assert not layers.circles(edges)


def test_paths_of_modules_are_strings_in_the_api_alone() -> None:
    problems = [f"{module}:{line}: '{text}'" for module, path in layers.modules().items()
                if layers.room_of(module) != "api"
                for line, text in layers.path_strings(module, path)]
    assert not problems, told(problems)


def test_tuned_numbers_are_in_one_place() -> None:
    problems = []
    for module, path in layers.modules().items():
        if layers.room_of(module) == "host.tuning":
            continue
        tree = ast.parse(path.read_text())
        known = layers.NOT_TUNED.get(module.removeprefix("hpcflow."), "").split()
        problems += [f"{module}:{line}: {name} belongs into host.tuning"
                     for line, name in layers.tuned_numbers(tree) if name not in known]
        problems += [f"{module}:{line}: read tuning when the number is needed"
                     for line in layers.tuning_at_import(tree)]
    assert not problems, told(problems)


def test_every_exception_of_tuned_numbers_exists() -> None:
    known = layers.modules()
    for module, names in layers.NOT_TUNED.items():
        tree = ast.parse(known[f"hpcflow.{module}"].read_text())
        assert set(names.split()) <= {name for _, name in layers.tuned_numbers(tree)}, module


def test_no_folder_is_crowded() -> None:
    for folder in [layers.PACKAGE, *layers.PACKAGE.rglob("*/")]:
        count = len(list(folder.glob("*.py")))
        assert count <= layers.MOST_FILES, f"{folder} has {count} files"


def test_every_room_says_what_is_in_it() -> None:
    for room in layers.ROOMS:
        path = layers.PACKAGE.joinpath(*room.split("."), "__init__.py")
        if path.exists():
            text = ast.get_docstring(ast.parse(path.read_text()))
            assert text and len(text) > 20, f"{path} needs a docstring"


def test_the_architecture_page_has_the_table() -> None:
    page = (layers.ROOT / "docs" / "architecture.md").read_text()
    assert layers.markdown() in page, "put the output of `python tests/layers.py` there"


@pytest.mark.parametrize(
    ("importer", "imported", "may"),
    [
        ("hpcflow.graph.graph", "hpcflow.dtypes", True),
        ("hpcflow.graph.graph", "hpcflow.ops.math.binary", False),
        ("hpcflow.dtypes", "hpcflow.base.late_names", True),
        ("hpcflow.base.tracing", "hpcflow.dtypes", False),
        ("hpcflow.ops.math.binary", "hpcflow.graph.opdef", True),
        ("hpcflow.ops.math.binary", "hpcflow.kernels.registry", False),
        ("hpcflow.ops.math.binary", "hpcflow.ops.linalg.matmul", False),
        ("hpcflow.storage.writer", "hpcflow.comm.world", True),
        ("hpcflow.storage.writer", "hpcflow.resources.variables", False),
        ("hpcflow.compiler.rewrite.fold", "hpcflow.kernels.registry", True),
        ("hpcflow.compiler.rewrite.fold", "hpcflow.kernels.math.binary", False),
        ("hpcflow.runtime.session.session", "hpcflow.compiler.passes", True),
        ("hpcflow.runtime.session.session", "hpcflow.train.saver", False),
        ("hpcflow.runtime.session.session", "hpcflow", False),
        ("hpcflow.tools.doctor", "hpcflow", True),
        ("hpcflow.runtime.session.session", "mpi4py.MPI", False),
        ("hpcflow.comm.world", "mpi4py.MPI", True),
        ("hpcflow.kernels.compiled.score_loops", "llvmlite", False),
        ("hpcflow.kernels.onednn.library", "ctypes", True),
    ],
)
def test_the_rules_themselves(importer: str, imported: str, may: bool) -> None:
    assert (layers.violation(importer, imported) is None) == may


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
        for node in layers.nodes_that_run(ast.parse(source))
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    assert names == ["shown", "lazy"]


@pytest.mark.parametrize(
    ("source", "names", "lines"),
    [
        ("_MOST_BYTES = 1 << 20", ["_MOST_BYTES"], []),
        ("FEW, LARGE_ROWS = 4, 2.0 * FEW", ["LARGE_ROWS"], []),
        ("WAIT_SECONDS: float = -1.0", ["WAIT_SECONDS"], []),
        ("SMALL = {'a': 1}\ndef f(LEAST=2): MOST = 3", [], []),
        ("WIDTH = tuning.WIDTH", [], [1]),
        ("class A:\n  def f(self, n=loops_tuning.N): return tuning.N", [], [2]),
        ("f = lambda: tuning.N", [], []),
    ],
)
def test_tuned_numbers_are_found(source: str, names: list[str], lines: list[int]) -> None:
    tree = ast.parse(source)
    assert [name for _, name in layers.tuned_numbers(tree)] == names
    assert list(layers.tuning_at_import(tree)) == lines


def test_circles_are_found() -> None:
    assert layers.circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [
        ["a", "b", "c"]]


def test_import_hpcflow_is_light() -> None:
    program = (
        "import json, sys; before = set(sys.modules); import hpcflow; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=layers.ROOT, capture_output=True, text=True,
        timeout=patience(),
    )
    assert result.returncode == 0, result.stderr
    heavy = [name for name in json.loads(result.stdout)
             if name in layers.HEAVY or name.startswith(tuple(f"{h}." for h in layers.HEAVY))]
    assert not heavy, f"import hpcflow loads {heavy}"
