"""The base of recurrent cells, and the affine map that they are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hpcflow import dtypes
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.rnn_steps import zeros_of
from hpcflow.ops.initializers import Constant
from hpcflow.ops.variable_scope import get_variable, variable_scope

WEIGHTS, BIASES = "weights", "biases"


class RNNCell:
    """One step of a recurrent network: ``cell(inputs, state) -> (output, new state)``.

    `inputs` has shape ``[batch, size]``; state and output have one row per batch entry and, after
    it, the sizes that `state_size` and `output_size` say: numbers, shapes or nests of these.
    """

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step; variables are made in the variable scope `scope` at the first call."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes")

    @property
    def state_size(self) -> Any:
        """The size or sizes of the state."""
        raise NotImplementedError(f"{type(self).__name__} does not say its state_size")

    @property
    def output_size(self) -> Any:
        """The size or sizes of the output."""
        raise NotImplementedError(f"{type(self).__name__} does not say its output_size")

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return a state of zeros for `batch_size` rows (a number or a scalar tensor)."""
        with name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            sizes = self.state_size
            return nest.pack_as(sizes, [zeros_of(s, batch_size, dtypes.as_dtype(dtype))
                                        for s in nest.flatten(sizes)])


@contextmanager
def cell_scope(scope: Any, default: str, reuse: bool | None) -> Iterator[Any]:
    """The variable scope of a cell's step: `scope` or the cell's own name."""
    with variable_scope(scope or default, reuse=reuse) as entered:
        yield entered


def affine(values: Sequence[Any], output_size: int, bias: bool = True,
           bias_start: float = 0.0) -> Tensor:
    """Return ``concat(values, 1) @ weights (+ biases)``, shape ``[batch, output_size]``.

    Raises ``ValueError`` for values that are not matrices of known size.
    """
    tensors = [convert_to_tensor(v) for v in values]
    sizes = []
    for tensor in tensors:
        dims = tensor._dims
        if dims is None or len(dims) != 2 or dims[1] is None:
            raise ValueError(f"a cell's inputs and states must have shape [batch, size] with a "
                             f"known size, got {tensor.shape} of {tensor.name}")
        sizes.append(dims[1])
    dtype = tensors[0].dtype.base_dtype
    weights = get_variable(WEIGHTS, [sum(sizes), output_size], dtype)
    joined = tensors[0] if len(tensors) == 1 else raw_ops.ConcatV2(tensors, 1)
    product = raw_ops.MatMul(joined, convert_to_tensor(weights))
    if not bias:
        return product
    biases = get_variable(BIASES, [output_size], dtype, Constant(bias_start, dtype))
    return raw_ops.BiasAdd(product, convert_to_tensor(biases))
