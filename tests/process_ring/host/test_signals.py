"""Signals that come while a step computes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from jobs import PACKAGE_PARENT
from processes import run_limited

import hpcflow as hf
from hpcflow.compiler.ir.explain import explain
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.host import signals

LIMIT_SECONDS = 120.0

# Signals of several kinds to the process, and to its main thread, until enough have been handled.
PRODUCTS = """
import os, signal, threading
import numpy as np
import hpcflow as hf

came = []
for number in (signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, frame: came.append(number))
main = threading.main_thread().ident
over = threading.Event()

def disturb():
    while not over.wait(0.002):
        os.kill(os.getpid(), signal.SIGUSR1)
        signal.pthread_kill(main, signal.SIGUSR2)

matrix = np.arange(256 * 256).reshape(256, 256).astype("f4") % 7 - 3
v = hf.Variable(matrix)
product = hf.matmul(v, v)
image = hf.nn.relu(hf.nn.conv2d(hf.reshape(v, [4, 64, 64, 4]), hf.ones([3, 3, 4, 8]), 1, "SAME"))
wrong = 0
with hf.Session() as session:
    session.run(hf.global_variables_initializer())
    expected = [session.run(product), session.run(image)]
    threading.Thread(target=disturb).start()
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
    while len(came) < 300:
        values = session.run([product, image])
        wrong += any((a != b).any() for a, b in zip(values, expected))
    signal.setitimer(signal.ITIMER_REAL, 0)
    over.set()
print("wrong", wrong, "kinds", len(set(came)))
"""


def run_program(tmp_path: Path, text: str, **variables: str) -> tuple[int | None, str]:
    """(status, output) of a program; the status is None if it did not end."""
    script, log = tmp_path / "program.py", tmp_path / "log"
    script.write_text(text)
    env = {**os.environ, "PYTHONPATH": PACKAGE_PARENT, **variables}
    status = run_limited([sys.executable, str(script)], log, LIMIT_SECONDS, env)
    return status, log.read_text(errors="replace")


def test_products_survive_signals(tmp_path):
    status, output = run_program(tmp_path, PRODUCTS, OMP_NUM_THREADS="3")
    assert status == 0 and "wrong 0 kinds 3" in output, output


TEAM = """
import os, signal, threading
import numpy as np
import hpcflow as hf
from hpcflow.kernels.onednn import library

def others():
    return set(os.listdir("/proc/self/task"))

def blocked(thread):
    text = open(f"/proc/self/task/{thread}/status").read()
    return int(text.partition("SigBlk:")[2].split()[0], 16)

lib = library.load()
if lib is None:
    print("no oneDNN")
    raise SystemExit
x, y, out = (np.ones((512, 512), "f4") for _ in range(3))
before = others()
assert lib.sgemm(b"N", b"N", 512, 512, 512, 1.0, x.ctypes.data, 512, y.ctypes.data, 512, 0.0,
                 out.ctypes.data, 512) == 0
made = others() - before
bits = [1 << number - 1 for number in (signal.SIGALRM, signal.SIGUSR1, signal.SIGTERM)]
print("made", len(made), all(blocked(t) & bit for t in made for bit in bits))
print("own", blocked(os.getpid()), "fault", any(blocked(t) & 1 << signal.SIGSEGV - 1 for t in made))
"""


def test_threads_of_onednn_take_no_signals(tmp_path):
    status, output = run_program(tmp_path, TEAM, OMP_NUM_THREADS="3", OPENBLAS_NUM_THREADS="1")
    assert status == 0, output
    if "no oneDNN" in output:
        pytest.skip("no oneDNN")
    assert "made 2 True\nown 0 fault False" in output


def test_a_call_holds_signals_back_and_lets_them_come():
    came = []
    previous = signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))

    def disturbed():
        os.kill(os.getpid(), signal.SIGUSR1)
        return signal.pthread_sigmask(signal.SIG_BLOCK, ())

    try:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        held = signals.call_undisturbed(disturbed)
        assert {signal.SIGUSR1, signal.SIGINT} <= held and signal.SIGSEGV not in held
        assert came == [signal.SIGUSR1]
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_a_handler_that_raises_leaves_the_signals_as_they_were():
    class Raised(Exception):
        pass

    def handler(number, frame):
        raise Raised

    previous = signal.signal(signal.SIGUSR1, handler)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        with pytest.raises(Raised):
            signals.call_undisturbed(os.kill, os.getpid(), signal.SIGUSR1)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_what_a_handler_raises_is_no_error_of_the_op_it_interrupts(graph):
    def handler(number, frame):
        raise TimeoutError

    previous = signal.signal(signal.SIGUSR1, handler)
    op = hf.no_op()
    node = Node(op.type, op.name, op.op_def, {}, [], [], "", [], [], 0, op)
    try:
        for cause, kind in ((lambda: signal.raise_signal(signal.SIGUSR1), TimeoutError),
                            (lambda: 1 / 0, hf.errors.InvalidArgumentError)):
            with pytest.raises(kind):
                try:
                    cause()
                except Exception as error:  # noqa: BLE001
                    raise explain(error, node, [], "") from None
    finally:
        signal.signal(signal.SIGUSR1, previous)
