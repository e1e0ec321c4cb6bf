"""The pass that joins the products of a sum: which nodes it makes, and which it leaves alone."""

from __future__ import annotations

import pytest

import hpcflow as hf
from hpcflow import kernels
from hpcflow.compiler.fuse.sum_products import sum_products
from hpcflow.compiler.ir import checks
from hpcflow.compiler.rewrite.prune import prune

CPU, OTHER = "/job:a/replica:0/task:0/device:CPU:0", "/job:a/replica:0/task:1/device:CPU:0"


@pytest.fixture(autouse=True)
def graph():
    kernels.load()
    with hf.Graph().as_default() as graph:
        yield graph


def joined(*fetches, away=()):
    """The step's nodes by name after the pass; those named in `away` are on another task."""
    step = prune(list(fetches), [], CPU)
    for node in step.nodes:
        node.device = OTHER if node.name in away else CPU
    sum_products(step)
    checks.check(step, "fuse")
    return {n.name: n for n in step.nodes}


def count(nodes, kind):
    return sum(n.type == kind for n in nodes.values())


def product(depth=4, transpose_a=True, transpose_b=False, rows=40, columns=30, dtype=hf.float32):
    a, b = (depth, rows), (depth, columns)
    return hf.matmul(hf.placeholder(dtype, a if transpose_a else a[::-1]),
                     hf.placeholder(dtype, b[::-1] if transpose_b else b),
                     transpose_a=transpose_a, transpose_b=transpose_b)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_a_sum_of_products_is_one(transpose_a, transpose_b):
    terms = [product(d, transpose_a, transpose_b) for d in (4, 1, 2)]
    nodes = joined(hf.add_n(terms, name="total"))
    assert count(nodes, "AddN") == 0 and count(nodes, "MatMul") == 1
    total = nodes["total"]
    assert total.type == "MatMul" and total.dims == [(40, 30)]
    shapes = [source.dims[i] for source, i in total.inputs]
    assert shapes == [(7, 40) if transpose_a else (40, 7), (30, 7) if transpose_b else (7, 30)]


def test_other_inputs_are_added_to_it():
    terms = [product() for _ in range(3)] + [product(transpose_a=False) for _ in range(4)]
    rest = [hf.placeholder(hf.float32, [40, 30]), product(transpose_b=True)]
    nodes = joined(hf.add_n([*terms[:4], *rest, *terms[4:]], name="total"))
    assert nodes["total"].type == "AddN" and nodes["total"].attrs["N"] == 4
    assert len(nodes["total"].inputs) == 4 and count(nodes, "MatMul") == 3


@pytest.mark.parametrize("change", ["few", "small", "unknown", "integers"])
def test_what_does_not_pay_stays(change):
    options = {"small": {"depth": 50}, "unknown": {"depth": None},
               "integers": {"dtype": hf.int32}}.get(change, {})
    terms = [product(**options) for _ in range(2 if change == "few" else 3)]
    nodes = joined(hf.add_n(terms, name="total"))
    assert nodes["total"].type == "AddN" and count(nodes, "MatMul") == len(terms)


def test_a_product_with_another_reader_stays():
    terms = [product() for _ in range(4)]
    nodes = joined(hf.add_n(terms, name="total"), terms[0], hf.add_n([terms[1]] * 3, name="other"))
    assert nodes["total"].type == nodes["other"].type == "AddN"
    assert count(nodes, "MatMul") == 4


def test_a_product_of_another_task_stays():
    terms = [product() for _ in range(4)]
    nodes = joined(hf.add_n(terms, name="total"), away=[terms[0].op.name])
    assert nodes["total"].type == "AddN" and count(nodes, "MatMul") == 2


def test_what_waited_for_a_product_waits_for_its_factors(graph):
    tanh = hf.tanh(hf.placeholder(hf.float32, [4, 40]))
    first = hf.matmul(tanh, hf.placeholder(hf.float32, [4, 30]), transpose_a=True)
    with graph.control_dependencies([first]):
        after = hf.no_op("after")
        passed = hf.identity(first)
    nodes = joined(hf.add_n([passed, product(), product()], name="total"), after)
    assert nodes["total"].type == "MatMul"
    assert "Tanh" in [c.type for c in nodes["after"].controls]


def test_the_gradient_of_weights_that_are_used_many_times():
    w = hf.Variable(hf.ones([64, 64]))
    state = hf.placeholder(hf.float32, [2, 64])
    for _ in range(5):
        state = hf.tanh(hf.matmul(state, w))
    (gradient,) = hf.gradients(state, [w])
    nodes = joined(gradient)
    assert count(nodes, "AddN") == 0
    assert count(nodes, "MatMul") == 5 + 4 + 1  # forward, gradients of states, of the weights
