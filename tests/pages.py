"""A page of the documentation as a program: ``python tests/pages.py docs/guide.md`` runs it.

The Python blocks of the page run from top to bottom in one scope. A ``print`` with a comment behind
it (or alone on the line below it) must print just that. What a page leaves to its reader is in
comments of the form ``<!-- test ... -->``, which run in their turn.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md",
         *sorted(p for p in (ROOT / "docs").rglob("*.md") if "reference" not in p.parts)]
BLOCK = re.compile(r"^```python\n(?P<shown>.*?)^```|^<!-- test\n(?P<hidden>.*?)^-->",
                   re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    """The path of a page from the project's root on."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[str]:
    """The blocks of a page, each behind as many empty lines as stand before it in the page."""
    text = page.read_text()
    for found in BLOCK.finditer(text):
        assert found.lastgroup
        yield "\n" * text.count("\n", 0, found.start(found.lastgroup)) + found[found.lastgroup]


def expected_output(source: str) -> dict[int, str]:
    """Line of each ``print`` -> the comment behind it, or alone on the line below it."""
    lines = source.splitlines()
    expected = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
            last = node.end_lineno or node.lineno
            below = lines[last].strip() if last < len(lines) else ""
            comment = lines[last - 1][node.end_col_offset:].partition("# ")[2]
            if not comment and below.startswith("# "):
                comment = below[2:]
            if comment:
                expected[node.lineno] = comment.strip()
    return expected


class Program:
    """The scope of a page's blocks, with a ``print`` that compares."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {"print": self.print}
        self.expected: dict[int, str] = {}
        self.missing: set[int] = set()

    def print(self, *values: object, **_options: object) -> None:
        """Compare what a line prints with its comment."""
        line = sys._getframe(1).f_lineno
        if line in self.expected:
            self.missing.discard(line)
            printed = " ".join(map(str, values)).strip()
            wanted = self.expected[line]
            assert printed == wanted, f"line {line} prints {printed!r}, not {wanted!r}"

    def run(self, source: str, name: str) -> None:
        """Run a block; each line that says what it prints must have printed."""
        self.expected = expected_output(source)
        self.missing = set(self.expected)
        exec(compile(source, name, "exec"), self.scope)
        assert not self.missing, f"lines {sorted(self.missing)} print nothing"


def main() -> None:
    """Run a page in the present folder."""
    page = Path(sys.argv[1])
    program = Program()
    for block in blocks(page):
        program.run(block, page.name)


if __name__ == "__main__":
    main()
