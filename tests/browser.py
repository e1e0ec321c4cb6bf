"""A headless Chromium, driven over the WebDriver protocol by ChromeDriver."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync",
           "--disable-dev-shm-usage", "--window-size=1400,1000"]
#: All elements that `f` is true for, those in the shadow of others too.
FIND = """
const found = [];
const f = (e) => (%s);
(function walk(root) {
  for (const e of root.querySelectorAll('*')) {
    if (f(e)) found.push(e);
    if (e.shadowRoot) walk(e.shadowRoot);
    if (e.tagName === 'IFRAME' && e.contentDocument) walk(e.contentDocument);
  }
})(document);
"""


def why_none() -> str | None:
    """Why there is no browser to drive, or None if there is one."""
    missing = [n for n in ("chromium", "chromedriver") if shutil.which(n) is None]
    return f"{' and '.join(missing)} not installed" if missing else None


#: Marks a test that drives one. Without a browser it is skipped, or fails if TEST_BROWSER=needed.
needed = pytest.mark.skipif(why_none() is not None and os.environ.get("TEST_BROWSER") != "needed",
                            reason=str(why_none()))


class Browser:
    """A page in a browser of its own; a context manager."""

    def __init__(self, profile: Path, seconds: float) -> None:
        assert why_none() is None, why_none()
        self.seconds = seconds
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
        assert self.driver.stdout is not None
        line = next(x for x in self.driver.stdout if "on port" in x and "started" in x)
        self.url = f"http://127.0.0.1:{line.rstrip().rstrip('.').rsplit(' ', 1)[1]}/session"
        options = {"args": [*OPTIONS, f"--user-data-dir={profile}"],
                   "binary": shutil.which("chromium")}
        made = self._ask("", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.url += f"/{made['sessionId']}"

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(self.url, method="DELETE"), timeout=60)
        finally:
            self.driver.terminate()
            self.driver.communicate()

    def _ask(self, path: str, data: dict[str, Any]) -> Any:
        request = urllib.request.Request(self.url + path, json.dumps(data).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=self.seconds) as answer:
            return json.load(answer)["value"]

    def open(self, url: str) -> None:
        """Load a page from its beginning."""
        self._ask("/url", {"url": "about:blank"})
        self._ask("/url", {"url": url})

    def run(self, program: str) -> Any:
        """What a JavaScript function body returns."""
        return self._ask("/execute/sync", {"script": program, "args": []})

    def count(self, condition: str) -> int:
        """How many elements `e` there are with a condition."""
        return self.run(FIND % condition + "return found.length;")

    def wait(self, condition: str) -> None:
        """Wait until there is an element with a condition."""
        self.wait_for(FIND % condition + "return found.length > 0;", condition)

    def click(self, condition: str) -> None:
        """Click the first element with a condition, once there is one."""
        self.wait(condition)
        self.run(FIND % condition + "found[0].click();")

    def wait_for(self, program: str, what: str) -> None:
        """Wait until a JavaScript function body returns true."""
        deadline = time.monotonic() + self.seconds
        while not self.run(program):
            assert time.monotonic() < deadline, f"the page never shows {what}: {self.text()}"
            time.sleep(0.1)

    def text(self) -> str:
        """The text of the page, what is in shadows too."""
        return self.run(FIND % "e.childElementCount === 0 && e.textContent.trim() && "
                        "!['STYLE', 'SCRIPT'].includes(e.tagName)"
                        + "return found.map((e) => e.textContent.trim()).join(' | ')")[:3000]

    def screenshot(self) -> bytes:
        """The page as it looks, as a PNG file."""
        with urllib.request.urlopen(f"{self.url}/screenshot", timeout=self.seconds) as answer:
            return base64.b64decode(json.load(answer)["value"])

    def errors(self) -> list[str]:
        """What the pages since the last call reported as errors."""
        return [e["message"] for e in self._ask("/se/log", {"type": "browser"})
                if e["level"] == "SEVERE"]
