"""The tables of the page on programs of 1.x: what is there, in part, otherwise, or not."""

from __future__ import annotations

import public_names

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
    rows = []
    for module, names in other_names.NAMES.items():
        for name, path in sorted(names.items()):
            stands_for = path.replace("raw:", "hpcflow.raw_ops.").replace(":", ".")
            if stands_for != f"{module}.{name}":
                rows.append(f"| `{module}.{name}` | `{stands_for}` |")
    return ["| name | the same as |", "|---|---|", *rows]


def _absent() -> list[str]:
    rows = [f"| `{name}` | {instead or '–'} |"
            for name, instead in sorted(absent_names.INSTEAD.items())]
    return ["| name of 1.x | use instead |", "|---|---|", *rows]
