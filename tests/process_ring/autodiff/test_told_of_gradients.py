"""What a program is told: of gradients that fail or become large, and by hooks."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
from speed import patience

import hpcflow as hf

pytestmark = pytest.mark.usefixtures("graph")


def test_operations_of_a_gradient_name_their_own():
    x = hf.placeholder(hf.float32, [2])
    y = hf.exp(x, name="forward")
    grad = hf.gradients(y, x)[0]
    assert grad.op._original_op is y.op
    assert y.op._original_op is None and hf.identity(grad).op._original_op is None


def test_errors_of_a_gradient_name_the_line_of_its_operation():
    x = hf.placeholder(hf.float32)
    y = hf.reshape(x, [-1], name="forward")
    grad = hf.gradients(y, x, grad_ys=hf.placeholder_with_default([1.0, 2.0], None))[0]
    with hf.Session() as session, pytest.raises(
            hf.errors.InvalidArgumentError, match=r"for op 'forward' created at .*told_of"):
        session.run(grad, {x: [1.0, 2.0, 3.0]})


@pytest.mark.parametrize("dims, told", [
    ([10, 2], None), ([200_000, 1000], "with 200000000 elements"), (None, "of unknown shape")])
def test_large_slices_that_become_dense(dims, told):
    shape = hf.placeholder(hf.int32, [2]) if dims is None else hf.constant(dims)
    slices = hf.IndexedSlices(hf.zeros([1, 2]), hf.constant([0]), shape)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hf.convert_to_tensor(slices)
    assert [told in str(w.message) for w in caught] == ([] if told is None else [True])


PROGRAM = """
import hpcflow as hf
hf.logging.set_verbosity(hf.logging.INFO)
step = hf.train.get_or_create_global_step()
add = hf.assign_add(step, 1)
hooks = [hf.train.LoggingTensorHook({"now": step}, every_n_iter=1), hf.train.StopAtStepHook(2)]
with hf.train.MonitoredTrainingSession(hooks=hooks) as session:
    while not session.should_stop():
        session.run(add)
"""


def test_hooks_are_heard_at_verbosity_info():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                          check=True, timeout=patience())
    assert "INFO:hpcflow:now = 1" in done.stderr
