"""The tables of the page on programs of 1.x: what is there, in part, otherwise, or not."""

from __future__ import annotations

from types import ModuleType

import public_names

import hpcflow
from hpcflow.api import absent_names, other_names


def names_tables() -> str:
    """Return the tables as Markdown, made from the library's own tables of names."""
    return "\n".join(["### Modules", "", *_modules(), "", "### Under another name", "",
                      *_otherwise(), "", "### Not there", "", *_absent(), ""])


def _modules() -> list[str]:
    rows = []
    for name in ["", *public_names.modules()]:
        entries = public_names.entries(name)
        if not entries:
            continue
        missing = [f"`{path}`" for path in absent_names.INSTEAD
                   if path.rpartition(".")[0] == name]
        title, page = f"hpcflow.{name}".rstrip("."), f"reference/api/{name or 'hpcflow'}.rst"
        state = "in part, without " + ", ".join(missing) if missing else "there"
        rows.append(f"| [`{title}`]({page}) | {len(entries)} | {state} |")
    return ["| module | functions and classes | |", "|---|---|---|", *rows]


def _otherwise() -> list[str]:
    homes, rows = _public_paths(), []
    for module, names in other_names.NAMES.items():
        shown = _public_module(module)
        for name, path in sorted(names.items()):
            stands_for = _public_path(module, name, path, homes)
            if stands_for != f"{shown}.{name}":
                rows.append(f"| `{shown}.{name}` | `{stands_for}` |")
    return ["| name | the same as |", "|---|---|", *rows]


def _public_paths() -> dict[int, list[str]]:
    """Return all public paths of each object by its id, the usual ones first."""
    homes: dict[int, list[str]] = {}
    for module in ["", *sorted(public_names.modules(), key=public_names.rank)]:
        for entry in public_names.entries(module):
            homes.setdefault(id(entry.value), []).append(entry.path)
    return homes


def _public_module(module: str) -> str:
    """Return the path by which programs reach a module: ``hpcflow.sets`` for one inside of ops."""
    for name, value in vars(hpcflow).items():
        if isinstance(value, ModuleType) and value.__name__ == module and "." in module:
            return f"hpcflow.{name}"
    return module


def _public_path(module: str, name: str, path: str, homes: dict[int, list[str]]) -> str:
    """Return where programs find what `module.name` stands for."""
    if path.startswith("raw:"):
        return path.replace("raw:", "hpcflow.raw_ops.")
    own = path.replace(":", ".").rpartition(".")[2]
    paths = homes.get(id(other_names.find(module, name)), [])
    same_name = [found for found in paths if found.rpartition(".")[2] == own]
    return (same_name or paths or [path.replace(":", ".")])[0]


def _absent() -> list[str]:
    rows = [f"| `{name}` | {instead or '–'} |"
            for name, instead in sorted(absent_names.INSTEAD.items())]
    rows += [f"| the rest of `{path}` | {instead} |"
             for path, instead in sorted(absent_names.BELOW.items())]
    return ["| name of 1.x | use instead |", "|---|---|", *rows]
