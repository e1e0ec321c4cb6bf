"""Check that every link and anchor within a built site leads somewhere.

``python docs/_ext/check_links.py build/docs`` prints what does not, and fails then.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, and the anchors that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the links and anchors of an element."""
        found = dict(attrs)
        link = found.get("src") if tag in ("img", "script") else found.get("href")
        if link:
            self.links.append(link)
        self.anchors |= {value for key in ("id", "name") if (value := found.get(key))}


def broken(folder: Path) -> list[str]:
    """Return a line for each link that leads nowhere; links to other hosts are not followed."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    lines = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = target in pages if parts.fragment else target.exists()
            if not there or (parts.fragment and target in pages
                             and unquote(parts.fragment) not in pages[target].anchors):
                lines.append(f"{path.relative_to(folder)}: {link}")
    return lines


def main() -> int:
    """Print what is broken; return 1 if anything is."""
    folder = Path(sys.argv[1]).resolve()
    lines = broken(folder)
    print("\n".join([*lines, f"{len(lines)} broken links"]))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
