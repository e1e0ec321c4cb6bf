"""Layers and cells whose weights have masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib import layers
from hpcflow.contrib.framework.arg_scopes import add_arg_scope
from hpcflow.contrib.model_pruning.masks import masking
from hpcflow.contrib.rnn.lstm import BasicLSTMCell, LSTMCell
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import InitializerLike, Nest, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.ops.state.variable_scope import get_variable_scope, variable_scope

_WEIGHTS, _KERNEL = r"(^|/)weights$", r"(?<!projection)/kernel$"


@add_arg_scope
def masked_convolution(inputs: TensorLike, num_outputs: int, kernel_size: Any,
                       *args: Any, **kwargs: Any) -> Tensor:
    """Return what ``contrib.layers.conv2d`` does, with masked weights.

    Arguments are those of that function. Raises ``ValueError`` unless `inputs` have four
    dimensions.
    """
    inputs = convert_to_tensor(inputs)
    if inputs.get_shape().ndims != 4:
        raise ValueError("Sparse Convolution not supported for input with rank "
                         f"{inputs.get_shape().ndims}")
    with _masking(_WEIGHTS):
        return layers.convolution(inputs, num_outputs, kernel_size, *args, **kwargs)


masked_conv2d = masked_convolution


@add_arg_scope
def masked_fully_connected(inputs: TensorLike, num_outputs: int, *args: Any,
                           **kwargs: Any) -> Tensor:
    """Return what ``contrib.layers.fully_connected`` does, with masked weights.

    Arguments are those of that function. Raises ``ValueError`` unless `num_outputs` is an int.
    """
    if not isinstance(num_outputs, int):
        raise ValueError(f"num_outputs should be int or long, got {num_outputs}.")
    with _masking(_WEIGHTS):
        return layers.fully_connected(inputs, num_outputs, *args, **kwargs)


class MaskedBasicLSTMCell(BasicLSTMCell):
    """``contrib.rnn.BasicLSTMCell``, with a masked kernel."""

    def __init__(self, num_units: int, forget_bias: float = 1.0, state_is_tuple: bool = True,
                 activation: Callable | None = None, reuse: bool | None = None,
                 name: str | None = None) -> None:
        super().__init__(num_units, forget_bias, state_is_tuple=state_is_tuple,
                         activation=activation, reuse=reuse,
                         name=name or "masked_basic_lstm_cell")

    def __call__(self, inputs: Any, state: Nest, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        with _masking(_KERNEL):
            return super().__call__(inputs, state, scope)


class MaskedLSTMCell(LSTMCell):
    """``contrib.rnn.LSTMCell``, with a masked kernel; a projection has no mask."""

    def __init__(self, num_units: int, use_peepholes: bool = False, cell_clip: float | None = None,
                 initializer: InitializerLike | None = None, num_proj: int | None = None,
                 proj_clip: float | None = None, num_unit_shards: int | None = None,
                 num_proj_shards: int | None = None, forget_bias: float = 1.0,
                 state_is_tuple: bool = True, activation: Callable | None = None,
                 reuse: bool | None = None) -> None:
        super().__init__(num_units, None, use_peepholes, cell_clip, initializer, num_proj,
                         proj_clip, num_unit_shards, num_proj_shards, forget_bias, state_is_tuple,
                         activation, reuse, name="masked_lstm_cell")

    def __call__(self, inputs: Any, state: Nest, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        with _masking(_KERNEL):
            return super().__call__(inputs, state, scope)


def _masking(pattern: str) -> Any:
    """A scope like the current one in which variables of such names have masks."""
    return variable_scope(get_variable_scope(), custom_getter=masking(pattern),
                          auxiliary_name_scope=False)
