"""If, While and For of functional_ops, whose branches and bodies are defined functions."""

import pytest

import hpcflow as hf
from hpcflow.python.framework import function
from hpcflow.python.ops import functional_ops, gen_functional_ops


@function.Defun(hf.float32)
def double(x):
    return x * 2.0


@function.Defun(hf.float32)
def less_one(x):
    return x - 1.0


@function.Defun(hf.float32)
def small(x):
    return x < 100.0


@function.Defun(hf.int32, hf.float32)
def plus(i, x):
    return x + hf.cast(i, hf.float32)


@function.Defun(hf.int32, hf.float32, hf.float32)
def add(i, x, y):
    return x + y


def test_values_and_gradients():
    x = hf.placeholder(hf.float32, [])
    (chosen,) = functional_ops.If(x > 1.0, [x], double, less_one)
    (grown,) = functional_ops.While([x], small, double)
    (summed,) = functional_ops.For(1, 5, 2, [x], plus)
    grads = hf.gradients(chosen, x) + hf.gradients(grown, x)
    with hf.Session() as session:
        assert session.run([chosen, grown, summed, *grads], {x: 3.0}) == [6, 192, 7, 2, 64]
        assert session.run([chosen, grads[0]], {x: 0.5}) == [-0.5, 1.0]


def test_signatures_must_fit():
    with pytest.raises(ValueError, match="signatures do not match"):
        functional_ops.While([1.0], plus, double)
    with pytest.raises(ValueError, match="same types"):
        functional_ops.If(True, [1.0], double, small)
    with pytest.raises(ValueError, match="takes 1 inputs, but got 2"):
        functional_ops.If(True, [1.0, 2.0], double, less_one)


def test_names_of_results():
    functional_ops.While([1.0], small, double, name="grown")
    gen_functional_ops.case(5, [3.0], [hf.float32], [double, less_one], name="chosen")
    functional_ops.For(1, 5, 2, [0.0], plus, name="summed")
    with hf.Session() as session:
        assert session.run(["grown:0", "chosen:0", "summed:0"]) == [128, 2, 4]


def test_numbers_of_outputs():
    with pytest.raises(hf.errors.InvalidArgumentError, match="returned 1 arguments"):
        functional_ops.For(0, 4, 1, [1.0, 2.0], add)
    with pytest.raises(hf.errors.InvalidArgumentError, match="Invalid start/limit/delta"):
        functional_ops.For(0, 4, -1, [1.0], plus)


def test_calls(graph):
    v = hf.get_variable("v", initializer=1.0, use_resource=True)

    @function.Defun()
    def grow():
        v.assign_add(1.0)

    grown = functional_ops.partitioned_call(grow.captured_inputs, grow)
    (called,) = functional_ops.partitioned_call([3.0], double)
    (remote,) = functional_ops.remote_call([3.0], [hf.float32], double, "/cpu:0")
    (slope,) = functional_ops.Gradient([3.0, 1.0], double)
    with hf.Session() as session:
        session.run(v.initializer)
        session.run(grown)
        assert session.run([v, called, remote, slope]) == [2, 6, 6, 2]
        with pytest.raises(hf.errors.NotFoundError, match="no_executor"):
            session.run(functional_ops.partitioned_call([3.0], double, executor_type="no_executor"))
