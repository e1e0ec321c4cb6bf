"""Pages that are made when the site is built: API reference, commands, tables of names.

They are written below ``docs/reference``, from the docstrings, the parsers of the commands, and
the tables of names, before Sphinx looks for pages.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import public_names
from names_tables import names_tables
from sphinx.application import Sphinx

import hpcflow
from hpcflow.graph.opdef import get_op_def
from hpcflow.tools.cli import COMMANDS


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what makes the pages."""
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", _plain_docstring, priority=400)  # before napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(app: Sphinx) -> None:
    """Write all pages; those that have not changed keep their time, so that nothing is built."""
    folder = Path(app.srcdir) / "reference"
    pages = {**_api_pages(), **_command_pages(), "names.md": names_tables()}
    for old in {*folder.rglob("*.rst"), *folder.rglob("*.md")} - {folder / name for name in pages}:
        old.unlink()
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _api_pages() -> dict[str, str]:
    homes: dict[int, str] = {}  # of each object the name under which it is described
    pages = {"api/raw_ops.rst": _raw_ops_page()}
    for name in ["", *sorted(public_names.modules(), key=public_names.rank)]:
        entries = public_names.entries(name)
        if entries:
            pages[f"api/{name or 'hpcflow'}.rst"] = _api_page(name, entries, homes)
    return pages


def _api_page(name: str, entries: list[public_names.Entry], homes: dict[int, str]) -> str:
    title = f"hpcflow.{name}".rstrip(".")
    about = (inspect.getdoc(public_names.module(name)) or "").splitlines()
    parts = [title, "=" * len(title), "", *_plain(about), ""]
    again = []
    for entry in entries:
        home = homes.setdefault(id(entry.value), entry.path)
        if home != entry.path and entry.directive != "autodata":
            again.append(f"* ``{entry.path}`` is :any:`{home}`")
            continue
        parts += [f".. {entry.directive}:: {entry.path}",
                  *(["   :members:"] if entry.directive == "autoclass" else []), ""]
    if again:
        parts += [".. rubric:: Described elsewhere", "", *again, ""]
    return "\n".join(parts)


def _raw_ops_page() -> str:
    lines = ["hpcflow.raw_ops", "===============", "", "A builder of every op type, by keywords.",
             "", ".. list-table::", "   :header-rows: 1", "", "   * - builder", "     - outputs"]
    for op_type in dir(hpcflow.raw_ops):
        outputs = ", ".join(arg.name for arg in get_op_def(op_type).outputs) or "none"
        signature = inspect.signature(getattr(hpcflow.raw_ops, op_type))
        lines += [f"   * - ``{op_type}{signature}``", f"     - ``{outputs}``"]
    return "\n".join([*lines, ""])


def _command_pages() -> dict[str, str]:
    pages = {}
    for name, (_, what) in COMMANDS.items():
        title = f"python -m hpcflow {name}"
        run = subprocess.run([sys.executable, "-m", "hpcflow", name, "--help"], check=True,
                             text=True, capture_output=True, env={**os.environ, "COLUMNS": "90"})
        body = "\n".join(f"   {line}".rstrip() for line in run.stdout.splitlines())
        pages[f"commands/{name}.rst"] = "\n".join([
            title, "=" * len(title), "", f"{what[0].upper()}{what[1:]}.", "",
            ".. code-block:: text", "", body, ""])
    return pages


# Roles and literals of reStructuredText, which stay, and characters that would begin markup.
_MARKUP = re.compile(r"(:\w+:`[^`]*`|``.+?``|`[^`]+`)(\w?)|([*|]|(?<=\w)_(?!\w))")


def _plain(lines: list[str]) -> list[str]:
    """Return a docstring in which ``*args``, ``|x|`` and the s of ``Hook``s stand as they are."""

    def escaped(found: re.Match) -> str:
        markup, letter, character = found.groups()
        return f"\\{character}" if character else f"{markup}\\ {letter}" if letter else markup

    return [_MARKUP.sub(escaped, line) for line in lines]


def _plain_docstring(_app: Sphinx, _what: str, _name: str, _object: object, _options: object,
                     lines: list[str]) -> None:
    lines[:] = _plain(lines)
