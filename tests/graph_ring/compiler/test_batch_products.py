"""The pass that computes products of unrolled steps at once: which it joins, and which it leaves
alone."""

from __future__ import annotations

import pytest

import hpcflow as hf
from hpcflow import kernels
from hpcflow.compiler.fuse.batch_products import batch_products
from hpcflow.compiler.ir import checks
from hpcflow.compiler.rewrite.fold import fold_constants
from hpcflow.compiler.rewrite.prune import prune

CPU, OTHER = "/job:a/replica:0/task:0/device:CPU:0", "/job:a/replica:0/task:1/device:CPU:0"
ROWS, SIZE, STEPS = 4, 128, 5


@pytest.fixture(autouse=True)
def graph():
    kernels.load()
    with hf.Graph().as_default() as graph:
        yield graph


def batched(*fetches, away=()):
    """The products of the step after the pass, by their numbers of rows; and its other types."""
    step = prune(list(fetches), [], CPU)
    for node in step.nodes:
        node.device = OTHER if node.name in away else CPU
    fold_constants(step, lambda *_: (_ for _ in ()).throw(NotImplementedError))
    batch_products(step)
    checks.check(step, "fuse")
    products = sorted(n.dims[0][0] for n in step.nodes if n.type == "MatMul")
    return products, {n.type for n in step.nodes}


def network(steps=STEPS, rows=ROWS, size=SIZE, bias=True, input_first=True):
    """(sequence, weights, states) of a plain recurrent network."""
    sequence = hf.placeholder(hf.float32, [rows, steps, size])
    weights = hf.placeholder(hf.float32, [2 * size, size])
    offset = hf.placeholder(hf.float32, [size])
    state, states = hf.placeholder(hf.float32, [rows, size]), []
    for x in hf.unstack(sequence, axis=1):
        total = hf.matmul(hf.concat([x, state] if input_first else [state, x], 1), weights)
        state = hf.tanh(hf.nn.bias_add(total, offset) if bias else total)
        states.append(state)
    return sequence, weights, states


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("input_first", [False, True])
def test_inputs_of_all_steps_are_one_product(bias, input_first):
    _, _, states = network(bias=bias, input_first=input_first)
    products, types = batched(states[-1])
    assert products == [ROWS] * STEPS + [ROWS * STEPS]
    assert ("BiasAdd" in types) == bias and "Add" in types


def test_products_of_inputs_alone_are_one():
    weights = hf.placeholder(hf.float32, [SIZE, SIZE])
    parts = hf.split(hf.placeholder(hf.float32, [STEPS * ROWS, SIZE]), STEPS)
    products, types = batched(*[hf.tanh(hf.matmul(x, weights)) for x in parts])
    assert products == [STEPS * ROWS] and "ConcatV2" in types


@pytest.mark.parametrize("input_first", [False, True])
def test_the_gradient_of_the_sequence_comes_after_the_steps(input_first):
    sequence, _, states = network(input_first=input_first)
    products, types = batched(hf.gradients(states[-1], [sequence])[0])
    # The gradient of the first state is not asked for.
    assert products == [ROWS] * (STEPS + STEPS - 1) + [ROWS * STEPS] * 2
    assert "_Transposed" in types


@pytest.mark.parametrize("options", [{"steps": 2}, {"rows": 512}, {"size": 16}, {"rows": None}])
def test_what_does_not_pay_stays(options):
    _, _, states = network(**options)
    steps, rows = options.get("steps", STEPS), options.get("rows", ROWS)
    step = prune([states[-1]], [], CPU)
    for node in step.nodes:
        node.device = CPU
    assert not batch_products(step)
    assert [n.dims[0][0] for n in step.nodes if n.type == "MatMul"] == [rows] * steps


def test_inputs_that_come_one_by_one_are_not_waited_for():
    _, _, states = network()
    assert batched(states[-1], away=["unstack"])[0] == [ROWS] * STEPS


def test_a_product_that_is_fetched_stays_a_value(graph):
    _, _, states = network(bias=False)
    totals = [op.outputs[0] for op in graph.get_operations() if op.type == "MatMul"]
    assert batched(states[-1], totals[2])[0] == [ROWS] * STEPS + [ROWS * STEPS]


def test_what_waited_for_a_product_waits_for_its_factors(graph):
    _, _, states = network()
    product = next(op for op in graph.get_operations() if op.type == "MatMul")
    with graph.control_dependencies([product]):
        after = hf.no_op("after")
    step = prune([states[-1], after], [], CPU)
    for node in step.nodes:
        node.device = CPU
    assert batch_products(step)
    checks.check(step, "fuse")
    waits = next(n for n in step.nodes if n.name == "after").controls
    assert [n.type for n in waits] == ["ConcatV2", "Placeholder"]
