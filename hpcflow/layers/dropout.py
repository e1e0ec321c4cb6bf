"""The dropout layer."""

from __future__ import annotations

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import BoolLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.layers.building import if_training
from hpcflow.nn import activations
from hpcflow.shapes import ShapeLike


def dropout(inputs: TensorLike, rate: float = 0.5, noise_shape: ShapeLike | None = None,
            seed: int | None = None, training: BoolLike = False, name: str | None = None) -> Tensor:
    """Return `inputs` with a fraction `rate` of the elements set to zero, while training.

    The others are scaled by ``1 / (1 - rate)`` (Srivastava et al., JMLR 15, 2014).

    Args:
        inputs: any shape.
        rate: fraction of the elements that are dropped.
        noise_shape: says which elements are dropped together; see ``nn.dropout``.
        seed: seed of the random numbers.
        training: a bool or a scalar bool tensor; False returns the inputs.
        name: name scope.
    """
    inputs = convert_to_tensor(inputs)
    with name_scope(name, "dropout", [inputs]):
        return if_training(
            training,
            lambda: activations.dropout(inputs, 1 - rate, noise_shape=noise_shape, seed=seed),
            lambda: raw_ops.Identity(inputs))
