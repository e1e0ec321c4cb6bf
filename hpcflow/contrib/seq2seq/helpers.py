"""Helpers: what a decoder reads next, and when its sequences end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Nest, TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.embedding import embedding_lookup
from hpcflow.nn.rnn_steps import as_lengths, batch_size_of
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.flow.tensor_array import TensorArray
from hpcflow.ops.math.reductions import reduce_all
from hpcflow.ops.random.random_ops import multinomial
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor


class Helper:
    """The interface: ``initialize``, ``sample`` and ``next_inputs``."""

    sample_ids_dtype: Any = dtypes.int32
    sample_ids_shape: Any = TensorShape([])

    @property
    def batch_size(self) -> Any:
        """The number of sequences, a scalar."""
        raise NotImplementedError("batch_size has not been implemented")

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """Return which sequences are finished, a vector of booleans, and the first inputs."""
        raise NotImplementedError("initialize has not been implemented")

    def sample(self, time: TensorLike, outputs: TensorLike, state: Nest,
               name: str | None = None) -> Any:
        """Return the symbols that the outputs of a step stand for."""
        raise NotImplementedError("sample has not been implemented")

    def next_inputs(self, time: TensorLike, outputs: TensorLike, state: Nest,
                    sample_ids: TensorLike, name: str | None = None) -> tuple[Any, Any, Any]:
        """Return (finished, inputs of the next step, state)."""
        raise NotImplementedError("next_inputs has not been implemented")


class CustomHelper(Helper):
    """A helper of three functions.

    Args:
        initialize_fn: ``f()``, as :meth:`Helper.initialize`.
        sample_fn: ``f(time=, outputs=, state=)``.
        next_inputs_fn: ``f(time=, outputs=, state=, sample_ids=)``.
        sample_ids_shape: of one symbol; a scalar by default.
        sample_ids_dtype: int32 by default.
    """

    def __init__(self, initialize_fn: Callable, sample_fn: Callable, next_inputs_fn: Callable,
                 sample_ids_shape: Any = None, sample_ids_dtype: Any = None) -> None:
        self._initialize_fn, self._sample_fn = initialize_fn, sample_fn
        self._next_inputs_fn = next_inputs_fn
        self.sample_ids_shape = TensorShape(sample_ids_shape or [])
        self.sample_ids_dtype = sample_ids_dtype or dtypes.int32
        self._batch_size: Any = None

    @property
    def batch_size(self) -> Any:
        """The number of sequences, known once the helper is initialized."""
        if self._batch_size is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch_size

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """As :meth:`Helper.initialize`."""
        finished, inputs = self._initialize_fn()
        self._batch_size = batch_size_of(convert_to_tensor(finished))
        return finished, inputs

    def sample(self, time: TensorLike, outputs: TensorLike, state: Nest,
               name: str | None = None) -> Any:
        """As :meth:`Helper.sample`."""
        return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(self, time: TensorLike, outputs: TensorLike, state: Nest,
                    sample_ids: TensorLike, name: str | None = None) -> tuple[Any, Any, Any]:
        """As :meth:`Helper.next_inputs`."""
        return self._next_inputs_fn(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


class TrainingHelper(Helper):
    """Gives a decoder the sequences that it should have made.

    Args:
        inputs: ``[batch, steps, ...]`` (``[steps, batch, ...]`` if `time_major`), or a nest.
        sequence_length: integers ``[batch]``.
        time_major: time is the first dimension of `inputs`.
        name: accepted.
    """

    def __init__(self, inputs: Any, sequence_length: TensorLike, time_major: bool = False,
                 name: str | None = None) -> None:
        lengths = as_lengths(sequence_length)
        if lengths is None:
            raise ValueError("sequence_length must be given")
        self._sequence_length = lengths
        leaves = [convert_to_tensor(x) for x in nest.flatten(inputs)]
        inputs = nest.pack_as(inputs, leaves)
        if not time_major:
            leaves = [_swapped(x) for x in leaves]
        self._inputs, self._leaves = inputs, leaves
        self._input_arrays = [TensorArray(x.dtype.base_dtype, batch_size_of(x, 0)).unstack(x)
                        for x in leaves]

    @property
    def inputs(self) -> Any:
        """The inputs as given, as tensors."""
        return self._inputs

    @property
    def sequence_length(self) -> Any:
        """The lengths."""
        return self._sequence_length

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        return convert_to_tensor(batch_size_of(self._sequence_length))

    _batch_size = batch_size

    @property
    def _zero_inputs(self) -> Any:
        """Zeros of the shape of one step's elements, for after the ends."""
        return nest.pack_as(self._inputs, [_zeros_of_step(x) for x in self._leaves])

    @property
    def _input_tas(self) -> Any:
        """The TensorArrays of the inputs, in their structure."""
        return nest.pack_as(self._inputs, self._input_arrays)

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """The first elements."""
        finished = raw_ops.Equal(self._sequence_length, np.int32(0))
        return finished, self._read(reduce_all(finished), np.int32(0))

    def sample(self, time: TensorLike, outputs: TensorLike, state: Nest,
               name: str | None = None) -> Any:
        """The symbol of the highest score."""
        return raw_ops.ArgMax(outputs, np.int32(-1), output_type=dtypes.int32)

    def next_inputs(self, time: TensorLike, outputs: TensorLike, state: Nest,
                    sample_ids: TensorLike, name: str | None = None) -> tuple[Any, Any, Any]:
        """The next elements, zeros once all sequences have ended."""
        following = raw_ops.Add(time, np.int32(1))
        finished = raw_ops.GreaterEqual(following, self._sequence_length)
        return finished, self._read(reduce_all(finished), following), state

    def _read(self, ended: Any, time: TensorLike) -> Any:
        found = []
        for array, whole in zip(self._input_arrays, self._leaves, strict=True):
            zeros = _zeros_of_step(whole)
            value = cond(ended, lambda z=zeros: z, lambda a=array: a.read(time))
            value.set_shape(whole.shape[1:])
            found.append(value)
        return nest.pack_as(self._inputs, found)


class GreedyEmbeddingHelper(Helper):
    """Gives a decoder its own best symbols.

    Args:
        embedding: a table ``[symbols, size]``, or a function of a vector of symbols.
        start_tokens: int32 ``[batch]``.
        end_token: the symbol that ends a sequence, a scalar.
    """

    def __init__(self, embedding: TensorLike, start_tokens: TensorLike,
                 end_token: TensorLike) -> None:
        self._embedding_fn = embedding if callable(embedding) else (
            lambda symbols: embedding_lookup(embedding, symbols))
        self._start_tokens = convert_to_tensor(start_tokens, dtypes.int32, "start_tokens")
        self._end_token = convert_to_tensor(end_token, dtypes.int32, "end_token")
        if self._start_tokens.shape.ndims not in (None, 1):
            raise ValueError("start_tokens must be a vector, but has shape "
                             f"{self._start_tokens.shape}")
        if self._end_token.shape.ndims not in (None, 0):
            raise ValueError(f"end_token must be a scalar, but has shape {self._end_token.shape}")
        self._start_inputs = self._embedding_fn(self._start_tokens)

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        return convert_to_tensor(batch_size_of(self._start_tokens))

    _batch_size = batch_size

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """The embedded `start_tokens`."""
        none = raw_ops.ZerosLike(self._start_tokens)
        return raw_ops.NotEqual(none, none), self._start_inputs

    def sample(self, time: TensorLike, outputs: TensorLike, state: Nest,
               name: str | None = None) -> Any:
        """The symbol of the highest score."""
        return raw_ops.ArgMax(outputs, np.int32(-1), output_type=dtypes.int32)

    def next_inputs(self, time: TensorLike, outputs: TensorLike, state: Nest,
                    sample_ids: TensorLike, name: str | None = None) -> tuple[Any, Any, Any]:
        """The embedded symbols."""
        return raw_ops.Equal(sample_ids, self._end_token), self._embedding_fn(sample_ids), state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """As :class:`GreedyEmbeddingHelper`, with symbols that are drawn by their scores.

    `softmax_temperature` divides the scores; `seed` is that of the random numbers.
    """

    def __init__(self, embedding: TensorLike, start_tokens: TensorLike, end_token: TensorLike,
                 softmax_temperature: Any = None, seed: int | None = None) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._softmax_temperature, self._seed = softmax_temperature, seed

    def sample(self, time: TensorLike, outputs: Any, state: Nest, name: str | None = None) -> Any:
        """Symbols drawn with the probabilities softmax(scores)."""
        if self._softmax_temperature is not None:
            outputs = outputs / self._softmax_temperature
        drawn = multinomial(outputs, 1, self._seed)
        return raw_ops.Cast(raw_ops.Squeeze(drawn, squeeze_dims=[1]), DstT="int32")


def _zeros_of_step(whole: Tensor) -> Any:
    sizes = raw_ops.StridedSlice(raw_ops.Shape(whole), np.array([1], np.int32),
                                 np.array([0], np.int32), np.array([1], np.int32), end_mask=1)
    return raw_ops.Fill(sizes, np.zeros((), whole.dtype.base_dtype.np))


def _swapped(x: Tensor) -> Any:
    rank = x.shape.ndims
    if rank is None or rank < 2:
        raise ValueError(f"inputs need two dimensions or more, but have the shape {x.shape}")
    return raw_ops.Transpose(x, np.array([1, 0, *range(2, rank)], np.int32))
