"""A network of two hidden layers for the digits: its inference, loss, training and evaluation."""

from __future__ import annotations

import math

from hpcflow import dtypes, summary
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.losses import sparse_softmax_cross_entropy
from hpcflow.nn.measures import in_top_k
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.random.random_ops import truncated_normal
from hpcflow.ops.state.variables import Variable
from hpcflow.train import GradientDescentOptimizer

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def inference(images: TensorLike, hidden1_units: int, hidden2_units: int) -> Tensor:
    """Return the scores ``[batch, 10]`` of images ``[batch, 784]``."""
    sizes = IMAGE_PIXELS, hidden1_units, hidden2_units, NUM_CLASSES
    values = convert_to_tensor(images)
    for number, scope in enumerate(("hidden1", "hidden2", "softmax_linear")):
        rows, columns = sizes[number:number + 2]
        with name_scope(scope):
            weights = Variable(truncated_normal([rows, columns], stddev=1 / math.sqrt(rows)),
                               name="weights")
            biases = Variable([0.0] * columns, name="biases")
            values = raw_ops.Add(raw_ops.MatMul(values, convert_to_tensor(weights)),
                                 convert_to_tensor(biases))
            if scope != "softmax_linear":
                values = raw_ops.Relu(values)
    return values


def loss(logits: Tensor, labels: TensorLike) -> Tensor:
    """Return the mean cross entropy of scores, for labels ``[batch]``."""
    return sparse_softmax_cross_entropy(cast(labels, dtypes.int64), logits)


def training(loss: Tensor, learning_rate: float) -> Operation:
    """Return an operation that makes one step of gradient descent, with a summary of the loss."""
    summary.scalar("loss", loss)
    step = Variable(0, name="global_step", trainable=False)
    return GradientDescentOptimizer(learning_rate).minimize(loss, global_step=step)


def evaluation(logits: Tensor, labels: TensorLike) -> Tensor:
    """Return the number of labels that have the highest score, an int32."""
    return reduce_sum(cast(in_top_k(logits, labels, 1), dtypes.int32))
