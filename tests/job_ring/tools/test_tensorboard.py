"""TensorBoard in a browser: it shows what a program writes, without an error of the page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import browser
import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow.contrib.tensorboard.plugins import projector

ROOT = Path(__file__).resolve().parents[3]
SECONDS = patience()
pytestmark = [browser.needed, pytest.mark.timeout(300)]


def write_model(logdir):
    """A run with all kinds of summaries, traced steps, and an embedding beside a checkpoint."""
    with hf.Graph().as_default() as graph:
        x = hf.placeholder(hf.float32, [8, 16], name="x")
        table = np.random.default_rng(0).normal(size=[16, 4]).astype(np.float32)
        w = hf.Variable(table, name="layer/embedding")
        loss = hf.reduce_mean(hf.square(hf.matmul(x, w)), name="loss")
        hf.summary.scalar("error", loss)
        hf.summary.histogram("weights", w)
        hf.summary.image("picture", hf.reshape(x, [1, 8, 16, 1]))
        train = hf.train.GradientDescentOptimizer(0.1).minimize(loss)
        merged = hf.summary.merge_all()
        saver = hf.train.Saver()
        with hf.Session() as session, hf.summary.FileWriter(str(logdir), graph) as writer:
            session.run(hf.global_variables_initializer())
            config = projector.ProjectorConfig()
            config.embeddings.add(tensor_name="layer/embedding:0", metadata_path="words.tsv")
            projector.visualize_embeddings(writer, config)
            (logdir / "words.tsv").write_text("".join(f"word{i}\n" for i in range(16)))
            for step in range(3):
                metadata = hf.RunMetadata()
                _, text = session.run([train, merged], {x: np.full([8, 16], step + 1.0)},
                                      hf.RunOptions(trace_level=3), metadata)
                writer.add_summary(text, step)
                writer.add_run_metadata(metadata, f"traced{step}", step)
            saver.save(session, str(logdir / "model"), 3)
            return session.run(w)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    write_model(folder / "a_model")
    subprocess.run([sys.executable, "examples/digits_ps.py", "--steps", "20", "--logdir",
                    str(folder / "demo")], cwd=ROOT, check=True, capture_output=True,
                   timeout=patience())
    return folder


@pytest.fixture(scope="module")
def server(logs):
    """The address of a TensorBoard that shows the logs."""
    with subprocess.Popen([sys.executable, "-m", "tensorboard.main", "--logdir", str(logs),
                           "--host", "127.0.0.1", "--port", "0", "--load_fast", "false"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said = []
            for line in process.stdout:
                said.append(line)
                if found := re.search(r"TensorBoard \S+ at (http://\S+)", line):
                    break
            else:
                pytest.fail("".join(said))
            yield found[1].rstrip("/")
        finally:
            process.terminate()
            process.communicate()


@pytest.fixture
def page(tmp_path):
    with browser.Browser(tmp_path / "profile", SECONDS) as opened:
        yield opened
        assert opened.errors() == []


def has_text(text, tag=""):
    """The condition of an innermost element with this text."""
    kind = f" && e.tagName === '{tag}'" if tag else ""
    return f"e.childElementCount === 0 && e.textContent.trim() === '{text}'{kind}"


def test_scalars(server, page):
    page.open(f"{server}/#scalars")
    for tag in ("error", "loss", "learning_rate"):  # of the model, and of the demo
        page.wait(f"e.textContent.trim().split('/').pop() === '{tag}'")
    page.wait("e.tagName === 'TF-LINE-CHART-DATA-LOADER' || e.tagName === 'VZ-LINE-CHART2'")


def test_histograms(server, page):
    page.open(f"{server}/#histograms")
    page.wait("e.tagName === 'VZ-HISTOGRAM-TIMESERIES'")
    page.wait("e.tagName === 'path' && e.getAttribute('d') && e.closest('.histogram, .stage')")


def test_images(server, page):
    page.open(f"{server}/#images")
    page.wait("e.tagName === 'IMG' && e.naturalWidth === 16 && e.naturalHeight === 8")


@pytest.mark.parametrize("quantity", ["Compute time", "Memory"])
def test_graph_with_times_and_memory_of_a_step(server, page, quantity):
    page.open(f"{server}/#graphs")
    node = "e.tagName === 'g' && e.dataset.name === 'MatMul'"
    page.wait(node)
    fill = "e.querySelector('.nodeshape .nodecolortarget').style.fill"
    before = page.run(f"{browser.FIND % node} const e = found[0]; return {fill};")
    page.click("e.tagName === 'PAPER-ITEM' && e.textContent.trim() === 'traced2'")
    page.click(f"e.tagName === 'PAPER-RADIO-BUTTON' && !e.hasAttribute('disabled') && "
               f"e.textContent.trim() === '{quantity}'")
    page.wait(f"{node} && {fill} && {fill} !== '{before}'")


def test_projector_shows_the_rows_of_a_variable(server, page):
    page.open(f"{server}/#projector")
    page.wait("e.textContent.trim() === 'Points: 16'")
    page.wait("e.textContent.trim() === 'Dimension: 4'")
