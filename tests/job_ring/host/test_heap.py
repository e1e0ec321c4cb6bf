"""Freed memory is kept for the next step."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
from speed import patience

# Prints how many pages the system gave to steps that follow others.
_PROGRAM = """
import resource
import numpy as np
import hpcflow as hf

x = hf.placeholder(hf.float32, [3 << 18])
parts = [x + float(i) for i in range(12)]
total = sum(hf.reduce_sum(p * hf.concat([q[1:], q[:1]], 0)) for p, q in zip(parts, parts[1:]))
value = np.ones(3 << 18, np.float32)
with hf.Session() as session:
    for _ in range(3):
        session.run(total, {x: value})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        session.run(total, {x: value})
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

# Prints the same of arrays that are made in threads, of which two are held at a time.
_THREADS = """
import resource
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from hpcflow import kernels

kernels.load()
held = None
def make(_):
    global held
    held = np.ones(5 << 20)
with ThreadPoolExecutor(1) as pool:
    list(pool.map(make, range(3)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    list(pool.map(make, range(4)))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

# Settings of the C library, which the tests make themselves.
_BASE = {name: value for name, value in os.environ.items()
         if not name.startswith(("MALLOC_", "GLIBC_", "HPCFLOW_"))}


def output_of(program, **environment):
    """What a Python program prints."""
    found = subprocess.run([sys.executable, "-c", program], env=_BASE | environment, check=True,
                           capture_output=True, text=True, timeout=patience())
    return found.stdout.strip()


def pages(**environment):
    """The pages of the program's steps, with one thread and no huge pages."""
    return int(output_of(_PROGRAM, HPCFLOW_THREADS="1", OMP_NUM_THREADS="1", HPCFLOW_JIT="0",
                         NUMPY_MADVISE_HUGEPAGE="0", **environment))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is one of glibc")
def test_steps_reuse_what_steps_freed():
    plain = pages(HPCFLOW_KEEP_BYTES="0")
    kept = pages()
    assert kept * 4 < plain or plain < 100


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is one of glibc")
def test_threads_reuse_what_they_freed():
    plain, kept = (int(output_of(_THREADS, NUMPY_MADVISE_HUGEPAGE="0", **more))
                   for more in ({"HPCFLOW_KEEP_BYTES": "0"}, {}))
    assert kept * 4 < plain or plain < 100


def test_settings_of_the_user_stay():
    program = "from hpcflow.host import malloc_policy; print(malloc_policy.keep_freed())"
    assert output_of(program, MALLOC_TRIM_THRESHOLD_="100000") == "False"
    assert output_of(program, HPCFLOW_KEEP_BYTES="0") == "False"
