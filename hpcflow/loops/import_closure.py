"""The modules of this package that a module imports, directly or through others.

They are found by reading import statements, those inside functions too, so that nothing is imported
for it. A statement in a text or under ``TYPE_CHECKING`` counts as well: a module too many does no
harm.
"""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path

#: Where the package lies.
ROOT = Path(__file__).parents[1]
_NAME = ROOT.name
_STATEMENT = re.compile(
    rf"^[ \t]*(?:from[ \t]+({_NAME}[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)"
    rf"|import[ \t]+({_NAME}[\w.]*))", re.MULTILINE)
_COMMENT, _OTHER_NAME, _WORD = re.compile(r"#[^\n]*"), re.compile(r"\bas\s+\w+"), re.compile(r"\w+")


def closure(module: str) -> dict[str, Path]:
    """The file of `module`, if it has one, and those of all modules of the package that it needs,
    by name. The package itself is none of them: it only hands on what others define."""
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = None if name in found else _file_of(name)
        if path is not None:
            found[name] = path
            waiting += _imports(path)
    return found


def _file_of(module: str) -> Path | None:
    if module.partition(".")[0] != _NAME:
        file = getattr(sys.modules.get(module), "__file__", None)
        return Path(file) if file else None
    return None if module == _NAME else _file_in_package(ROOT, module)


@functools.lru_cache(maxsize=1024)
def _file_in_package(root: Path, module: str) -> Path | None:
    place = root.joinpath(*module.split(".")[1:])
    return next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.exists()), None)


def _imports(path: Path) -> list[str]:
    """The modules of the package that the module in this file imports itself."""
    found = []
    for package, names, module in _STATEMENT.findall(path.read_text(encoding="utf-8")):
        if module:
            found.append(module)
        for name in _WORD.findall(_OTHER_NAME.sub("", _COMMENT.sub("", names))):
            inner = f"{package}.{name}"
            found.append(inner if _file_of(inner) else package)
    return found
