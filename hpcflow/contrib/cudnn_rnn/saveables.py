"""Networks in checkpoints: as the variables of cells that compute the same step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from hpcflow.contrib.cudnn_rnn import conversion
from hpcflow.contrib.cudnn_rnn import operations as o
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import colocate_with
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.arrays.identities import identity
from hpcflow.ops.state.state import assign
from hpcflow.train.saveable import SaveableObject, SaveSpec, reference_of

if TYPE_CHECKING:
    from hpcflow.ops.state.variable_scope import VariableScope


class CudnnOpaqueParamsSaveable(SaveableObject):
    """A vector of parameters, saved as the variables of ``MultiRNNCell`` in ``dynamic_rnn``, or of
    ``stack_bidirectional_dynamic_rnn``.

    A Saver of all variables saves these in the place of the vector.

    Args:
        opaque_params: the variable that holds the vector.
        num_layers, num_units, input_size: the sizes of the network.
        input_mode, direction: as of ``cudnn_rnn``.
        scope: the variable scope of the cells, or its name.
        name: name of the saveable.
    """

    _format_converter_cls: ClassVar[type[conversion.CudnnParamsFormatConverter]]
    _rnn_cell_name: ClassVar[str]
    _inner: ClassVar[tuple[str, ...]] = ("",)

    def __init__(self, opaque_params: Any, num_layers: int, num_units: int, input_size: int,
                 input_mode: str = o.CUDNN_INPUT_LINEAR_MODE,
                 direction: str = o.CUDNN_RNN_UNIDIRECTION,
                 scope: VariableScope | str | None = None,
                 name: str = "cudnn_rnn_saveable") -> None:
        self._variables, self._num_layers = opaque_params, num_layers
        self._both = direction == o.CUDNN_RNN_BIDIRECTION
        outer: Any = scope if scope is None or isinstance(scope, str) else scope.name
        self.format_converter = self._format_converter_cls(
            num_layers, num_units, input_size, input_mode=input_mode, direction=direction)
        with colocate_with(reference_of(opaque_params).op):
            value = convert_to_tensor(opaque_params)
            weights, biases = self.format_converter.opaque_to_tf_canonical(value)
            whole = identity(value)
        names = [f"{prefix}/{inner}{last}" for last in ("kernel", "bias")
                 for prefix in self._prefixes() for inner in self._inner]
        specs = [SaveSpec(tensor, "", f"{outer}/{n}" if outer else n)
                 for tensor, n in zip([*weights, *biases], names, strict=True)]
        super().__init__(whole, specs, name)
        self.replaces = (opaque_params,)

    def _prefixes(self) -> list[str]:
        """The scopes of the cells, layer by layer."""
        if not self._both:
            return [f"rnn/multi_rnn_cell/cell_{i}/{self._rnn_cell_name}"
                    for i in range(self._num_layers)]
        return [f"stack_bidirectional_rnn/cell_{i}/bidirectional_rnn/{side}/{self._rnn_cell_name}"
                for i in range(self._num_layers) for side in ("fw", "bw")]

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list | None) -> Operation:
        """Return the assignment of the vector of the restored variables."""
        with colocate_with(reference_of(self._variables).op):
            params = self.format_converter.tf_canonical_to_opaque(restored_tensors)
            return assign(self._variables, params, validate_shape=False).op


class CudnnLSTMSaveable(CudnnOpaqueParamsSaveable):
    """The parameters of LSTMs, as those of :class:`CudnnCompatibleLSTMCell`."""

    _format_converter_cls = conversion.CudnnParamsFormatConverterLSTM
    _rnn_cell_name = "cudnn_compatible_lstm_cell"


class CudnnGRUSaveable(CudnnOpaqueParamsSaveable):
    """The parameters of gated recurrent units, as those of :class:`CudnnCompatibleGRUCell`."""

    _format_converter_cls = conversion.CudnnParamsFormatConverterGRU
    _rnn_cell_name = "cudnn_compatible_gru_cell"
    _inner = ("gates/", "candidate/input_projection/", "candidate/hidden_projection/")


class CudnnRNNTanhSaveable(CudnnOpaqueParamsSaveable):
    """The parameters of simple cells with tanh, as those of ``BasicRNNCell``."""

    _format_converter_cls = conversion.CudnnParamsFormatConverterTanh
    _rnn_cell_name = "basic_rnn_cell"


class CudnnRNNReluSaveable(CudnnOpaqueParamsSaveable):
    """The parameters of simple cells with relu, as those of ``BasicRNNCell``."""

    _format_converter_cls = conversion.CudnnParamsFormatConverterRelu
    _rnn_cell_name = "basic_rnn_cell"
