"""Numbers below the smallest normal one are zeros in steps, and nowhere else."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow import config
from hpcflow.host import fp_mode

pytestmark = [
    pytest.mark.usefixtures("graph"),
    pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"),
                       reason="only where the bits of the processor are known"),
]
TINY = np.float32(1e-39)


def kept():
    """Whether this thread computes with denormal numbers."""
    halves = np.full(4, TINY) * np.float32(0.5)
    return bool(halves.view(np.int32).all())


@pytest.mark.parametrize("size", [3, 1 << 20])
def test_they_are_zeros_in_all_threads_of_a_step(form, size):
    x = hf.placeholder(hf.float32, [None])
    y = hf.reduce_sum(hf.cast(hf.not_equal(x * 0.5, 0), hf.int32))
    with hf.Session() as session:
        for _ in range(3):
            assert session.run(y, {x: np.full(size, TINY)}) == 0
            assert kept()


def test_products_take_no_longer():
    """The factors are read as zeros, by libraries too."""
    x = hf.placeholder(hf.float32, [64, 64])
    with hf.Session() as session:
        found = session.run(hf.matmul(x, hf.ones([64, 64])), {x: np.full((64, 64), TINY)})
    assert not found.any()


def test_the_environment_comes_back_after_an_error():
    x = hf.placeholder(hf.float32, [None])
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError):
        session.run(hf.reshape(x, [3]), {x: [1.0]})
    assert kept()


def test_steps_in_steps():
    with hf.Session() as session:
        inner = hf.constant(2.0) * 3.0
        outer = hf.py_func(lambda: session.run(inner) * TINY, [], hf.float32) * 0.5
        assert session.run(outer) == 0
    assert kept()


def test_functions_of_the_user_keep_them():
    """Whatever calls them: also inside a loop, and in a step that a function of the user runs."""
    seen = []

    def look():
        with np.errstate(divide="raise"):
            try:
                np.float32(1) / np.float32(0)
                raises = False
            except FloatingPointError:
                raises = True
        seen.append((kept(), raises))
        return np.float32(2)

    with hf.Session() as session:
        value = hf.py_func(look, [], hf.float32) * TINY * 0.5
        outer = hf.py_func(lambda: session.run(value) + look(), [], hf.float32)
        assert session.run(outer) == 2 and session.run(value) == 0
    assert seen == [(True, True)] * 3 and kept()


def test_what_the_user_says_of_exceptional_numbers_does_not_reach_steps():
    with hf.Session() as session:
        inner = hf.placeholder(hf.float32, []) / 0.0

        def divide():
            with np.errstate(all="raise"):
                return session.run(inner, {inner.op.inputs[0]: 1.0})

        assert session.run(hf.py_func(divide, [], hf.float32)) == np.inf
        np.seterr(over="raise")
        try:
            assert session.run(hf.py_func(divide, [], hf.float32)) == np.inf
            assert np.geterr()["over"] == "raise"
        finally:
            np.seterr(over="warn")


def test_a_flag_keeps_them():
    program = ("import numpy as np, hpcflow as hf\n"
               "x = hf.placeholder(hf.float32, [2])\n"
               "print(hf.Session().run(x * 0.5, {x: np.full(2, 1e-39, np.float32)}).all())")
    for value, expected in (("1", "True"), ("0", "False")):
        environ = dict(os.environ, HPCFLOW_DENORMALS=value)
        found = subprocess.run([sys.executable, "-c", program], env=environ, check=True,
                               capture_output=True, text=True, timeout=patience())
        assert found.stdout.strip() == expected


def test_depth_is_counted():
    fp_mode.flush()
    fp_mode.flush()
    fp_mode.keep()
    flushed = not kept()
    fp_mode.keep()
    assert kept() and flushed is not config.flags.denormals


def test_the_angle_of_a_point_near_zero(form):
    y, x = (hf.placeholder(hf.float32, [None]) for _ in range(2))
    with hf.Session() as session:
        angles = session.run(hf.atan2(y, x), {y: [TINY, -TINY, 1.0], x: [TINY, -1.0, TINY]})
    np.testing.assert_allclose(angles, [0, -np.pi, np.pi / 2], rtol=1e-6)
