"""``contrib.layers``: reversible blocks, layers computed again, divisive normalization, and what
has gradients of its own."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import layers


def dense(x, side=None):
    made = hf.layers.dense(x, 4, activation=hf.tanh)
    return made if side is None else made + side[0]


@pytest.mark.parametrize("sided", [False, True])
def test_a_reversible_block_has_the_gradients_of_its_layers(session, sided):
    rng = np.random.default_rng(0)
    x1, x2, side = (hf.constant(rng.normal(size=(3, 4)), hf.float32) for _ in range(3))
    sides = {"f_side_input": [side], "g_side_input": [side]} if sided else {}
    with hf.variable_scope("block") as scope:
        ys = layers.rev_block(x1, x2, dense, dense, num_layers=3, **sides)
    variables = hf.trainable_variables()
    with hf.variable_scope(scope, reuse=True):
        kept = layers.rev_block(x1, x2, dense, dense, num_layers=3, is_training=False, **sides)
    wanted = [x1, x2, *([side] if sided else []), *variables]
    found = [hf.gradients(hf.add_n([hf.reduce_sum(y * y) for y in pair]), wanted)
             for pair in (ys, kept)]
    assert hf.trainable_variables() == variables and len(variables) == 12
    session.run(hf.global_variables_initializer())
    for one, other in zip(*session.run(found)):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_reversible_block_goes_back(session):
    x = hf.constant(np.random.default_rng(0).normal(size=(2, 3, 4)), hf.float32)
    block = layers.RevBlock([dense, hf.sin], dense, num_layers=2)
    back = block.backward(*block.forward(x[0], x[1]))
    session.run(hf.global_variables_initializer())
    for one, other in zip(*session.run([back, [x[0], x[1]]])):
        np.testing.assert_allclose(one, other, atol=1e-5)
    with pytest.raises(ValueError, match="each of 2 layers"):
        layers.RevBlock([dense], dense, num_layers=2)


def test_recompute_grad(session):
    told = []

    @layers.recompute_grad(tupleize_grads=True)
    def layer(x, is_recomputing=False):
        told.append(is_recomputing)
        return dense(x)

    x = hf.constant([[1.0, -2.0, 0.5, 3.0]])
    with hf.variable_scope("a"):
        loss = hf.reduce_sum(layer(x))
    kernel = hf.trainable_variables()[0]
    found = hf.gradients(loss, kernel)[0]
    assert told == [False, True] and len(hf.trainable_variables()) == 2
    plain = hf.gradients(hf.reduce_sum(hf.tanh(hf.matmul(x, kernel))), kernel)[0]
    session.run(hf.global_variables_initializer())
    np.testing.assert_allclose(*session.run([found, plain]), rtol=1e-5)
    with hf.variable_scope("b"):
        twice = hf.reduce_sum(layer(x) + layer(x))
    with pytest.raises(ValueError, match="twice in the same enclosing scope"):
        hf.gradients(twice, hf.trainable_variables())
    with pytest.raises(ValueError, match="closes over"):
        layers.recompute_grad(lambda y: y * loss)


def test_divisive_normalization(session):
    x = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    last = layers.gdn(hf.constant(x), name="gdn")
    first = layers.gdn(hf.constant(x), inverse=True, data_format="channels_first", name="first")
    session.run(hf.global_variables_initializer())
    np.testing.assert_allclose(session.run(last), x / np.sqrt(1 + 0.1 * x**2), rtol=1e-5)
    np.testing.assert_allclose(session.run(first), x * np.sqrt(1 + 0.1 * x**2), rtol=1e-5)
    with pytest.raises(ValueError, match="data_format"):
        layers.gdn(hf.constant(x), data_format="NHWC")
    with pytest.raises(ValueError, match="channel dimension"):
        layers.gdn(hf.placeholder(hf.float32, [2, 3, None]))


def test_scaled_gradients_and_lengths(session):
    x = hf.constant([[3.0, 4.0], [0.1, 0.2]])
    scaled = layers.scale_gradient(x, hf.constant([2.0, 5.0]))
    assert session.run(hf.gradients(scaled, x)[0]).tolist() == [[2, 5], [2, 5]]
    clip = layers.optimizing.adaptive_clipping_fn(static_max_norm=1.0)
    (clipped, _), (none, _) = clip([(x[0], x), (None, x)])
    session.run(hf.global_variables_initializer())
    np.testing.assert_allclose(session.run(clipped), [0.6, 0.8], rtol=0.1)
    assert none is None and len(hf.global_variables()) == 2


def test_sparse_ids(session):
    from hpcflow.contrib.layers.python.ops import sparse_ops

    ids = session.run(sparse_ops.indicators_to_sparse_ids([["", "a", "b"], ["c", "", ""]]))
    assert ids.indices.tolist() == [[0, 0], [0, 1], [1, 0]]
    assert ids.values.tolist() == [1, 2, 0] and ids.dense_shape.tolist() == [2, 2]
    rows = hf.SparseTensor([[0, 0], [2, 2], [2, 0]], [0, 1, 2], [3, 4])
    assert session.run(sparse_ops.sparse_row_envelope(rows)).tolist() == [1, 0, 3]
    dense = session.run(sparse_ops.dense_to_sparse_tensor([[True, False]]))
    assert dense.indices.tolist() == [[0, 0]]
