"""Cases of `programs.dispatch` as the same statements in plain NumPy: arithmetic, nothing else."""

from __future__ import annotations

import itertools

import numpy as np

from hpcflow.tools.bench.child import Step
from hpcflow.tools.bench.programs import dispatch as program


def chained_adds() -> Step:
    """Additions of which each needs the one before."""
    x = np.full(program.FLOATS, 0.5, np.float32)

    def step() -> np.ndarray:
        y = x
        for _ in range(program.ADDS):
            y = y + x
        return y

    return step


def figure1_step() -> Step:
    """A training step of one hidden layer, softmax and Adagrad, with the gradients by hand."""
    random = np.random.default_rng(1)
    shape_1 = program.INPUTS, program.HIDDEN
    shape_2 = program.HIDDEN, program.CLASSES
    w_1 = random.uniform(-0.05, 0.05, shape_1).astype(np.float32)
    w_2 = random.uniform(-0.05, 0.05, shape_2).astype(np.float32)
    b_1, b_2 = np.zeros(shape_1[1], np.float32), np.zeros(shape_2[1], np.float32)
    variables = [w_1, b_1, w_2, b_2]
    accumulators = [np.full_like(v, program.ACCUMULATOR) for v in variables]
    batches = itertools.cycle(program.training_batches())

    def step() -> np.ndarray:
        x, y = next(batches)
        layer_1 = x @ w_1
        layer_1 += b_1
        np.maximum(layer_1, 0, out=layer_1)
        layer_2 = layer_1 @ w_2
        layer_2 += b_2
        layer_2 -= layer_2.max(axis=1, keepdims=True)
        softmax = np.exp(layer_2)
        total = softmax.sum(axis=1, keepdims=True)
        loss = ((np.log(total) - layer_2) * y).sum(axis=1)
        softmax /= total
        d_layer_2 = softmax - y
        d_layer_1 = d_layer_2 @ w_2.T
        d_layer_1 *= layer_1 > 0
        gradients = [
            x.T @ d_layer_1,
            d_layer_1.sum(axis=0),
            layer_1.T @ d_layer_2,
            d_layer_2.sum(axis=0),
        ]
        for variable, accumulator, gradient in zip(variables, accumulators, gradients):
            accumulator += gradient * gradient
            variable -= program.RATE * gradient / np.sqrt(accumulator)
        return loss

    return step


#: Cases that have arithmetic to compare with.
STEPS = {program.CHAINED_ADDS: chained_adds, program.FIGURE1_STEP: figure1_step}
