"""A cell that attends to its own last outputs."""

from __future__ import annotations

from typing import Any

from hpcflow.contrib.rnn.cell import RNNCell
from hpcflow.contrib.rnn.linear import linear
from hpcflow.contrib.rnn.wrappers import WrapperCell
from hpcflow.framework import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Nest, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.state.variable_scope import get_variable, variable_scope


class AttentionCellWrapper(WrapperCell):
    """A cell with attention to its last `attn_length` outputs (arXiv:1601.06733).

    The state is that of the cell, the attention and the outputs that it looks at.

    Args:
        cell: the cell.
        attn_length: how many outputs it looks at.
        attn_size: size of the attention and of the output; that of the cell's output if None.
        attn_vec_size: size of the hidden layer of the attention; `attn_size` if None.
        input_size: size of the inputs after the attention is joined to them; unchanged if None.
        state_is_tuple: keep the parts of the state apart; else they are one matrix.
        reuse: as of ``variable_scope``.

    Raises ``ValueError`` if `attn_length` is not positive, or the cell's state has parts and
    `state_is_tuple` is false.
    """

    def __init__(self, cell: RNNCell, attn_length: int, attn_size: int | None = None,
                 attn_vec_size: int | None = None, input_size: int | None = None,
                 state_is_tuple: bool = True, reuse: bool | None = None) -> None:
        super().__init__(cell)
        if nest.is_sequence(cell.state_size) and not state_is_tuple:
            raise ValueError("Cell returns tuple of states, but the flag state_is_tuple is not "
                             f"set. State size is: {cell.state_size}")
        if attn_length <= 0:
            raise ValueError(f"attn_length should be greater than zero, got {attn_length}")
        self._length = attn_length
        self._size: int = cell.output_size if attn_size is None else attn_size
        self._hidden_size = self._size if attn_vec_size is None else attn_vec_size
        self._input_size = input_size
        self._state_is_tuple = state_is_tuple
        self._reuse = reuse

    @property
    def state_size(self) -> Any:
        """The sizes of the cell's state, the attention and the outputs; or their sum."""
        sizes = (self._cell.state_size, self._size, self._size * self._length)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> int:
        """The size of the attention."""
        return self._size

    def zero_state(self, batch_size: TensorLike, dtype: Any) -> Nest:
        """Return a state of zeros."""
        return RNNCell.zero_state(self, batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        inputs = convert_to_tensor(inputs)
        with self._step_scope(scope, "attention_cell_wrapper", self._reuse):
            inner, attention, seen = self._parts(state)
            seen = raw_ops.Reshape(seen, [-1, self._length, self._size])
            size = self._input_size or inputs.shape[1].value
            output, inner = self._cell(linear([inputs, attention], size, True), inner)
            attention = self._attention(nest.flatten(inner), seen)
            with variable_scope("attn_output_projection"):
                output = linear([output, attention], self._size, True)
            seen = raw_ops.ConcatV2([raw_ops.StridedSlice(
                seen, [0, 1], [0, 0], [1, 1], begin_mask=1, end_mask=3),
                raw_ops.ExpandDims(output, 1)], 1)
            seen = raw_ops.Reshape(seen, [-1, self._length * self._size])
        if self._state_is_tuple:
            return output, (inner, attention, seen)
        return output, raw_ops.ConcatV2([inner, attention, seen], 1)

    def _parts(self, state: Any) -> Any:
        if self._state_is_tuple:
            return state
        sizes = [self._cell.state_size, self._size, self._size * self._length]
        return raw_ops.SplitV(convert_to_tensor(state), sizes, 1, num_split=3)

    def _attention(self, query: list, seen: Tensor) -> Tensor:
        """The mean of the outputs seen, weighted by how they fit the state of the cell."""
        joined = query[0] if len(query) == 1 else raw_ops.ConcatV2(query, 1)
        with variable_scope("attention"):
            dtype = seen.dtype.base_dtype
            kernel = get_variable("attn_w", [1, 1, self._size, self._hidden_size], dtype)
            scale = get_variable("attn_v", [self._hidden_size], dtype)
            flat = raw_ops.Reshape(convert_to_tensor(kernel), [self._size, self._hidden_size])
            hidden = raw_ops.Reshape(
                raw_ops.MatMul(raw_ops.Reshape(seen, [-1, self._size]), flat),
                [-1, self._length, self._hidden_size])
            wanted = raw_ops.ExpandDims(linear([joined], self._hidden_size, True), 1)
            scores = raw_ops.Sum(raw_ops.Mul(
                convert_to_tensor(scale), raw_ops.Tanh(raw_ops.Add(hidden, wanted))), [2])
            weights = raw_ops.ExpandDims(raw_ops.Softmax(scores), 2)
            return raw_ops.Reshape(raw_ops.Sum(raw_ops.Mul(weights, seen), [1]), [-1, self._size])
