"""Scheduled sampling: inputs replaced at random by a decoder's own outputs (arXiv:1506.03099)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.seq2seq.helpers import TrainingHelper
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Nest, TensorHandle, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.embedding import embedding_lookup
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.math.reductions import reduce_all, reduce_any
from hpcflow.ops.random.random_ops import multinomial, random_uniform


class _ScheduledHelper(TrainingHelper):
    """A helper that decides for each sequence and step whether to sample."""

    def _set_probability(self, probability: TensorLike, seed: int | None) -> None:
        self._sampling_probability = convert_to_tensor(probability, dtypes.float32,
                                                       "sampling_probability")
        if self._sampling_probability.shape.ndims not in (None, 0, 1):
            raise ValueError("sampling_probability must be either a scalar or a vector. saw "
                             f"shape: {self._sampling_probability.shape}")
        self._scheduling_seed = seed

    def _choices(self) -> Tensor:
        """Draw a bool vector: the sequences that sample in this step."""
        drawn = random_uniform([self.batch_size], seed=self._scheduling_seed)
        return raw_ops.Less(drawn, self._sampling_probability)

    def _unless_over(self, finished: Tensor, chosen: Tensor, given: Any, sampled: Callable) -> Any:
        """Return `given`, or ``sampled()`` if some sequence was chosen and not all are finished."""
        plain = raw_ops.LogicalOr(reduce_all(finished), raw_ops.LogicalNot(reduce_any(chosen)))
        leaves = nest.flatten(given)
        out = cond(plain, lambda: [raw_ops.Identity(x) for x in leaves],
                   lambda: [raw_ops.Identity(x) for x in nest.flatten(sampled())])
        out = out if isinstance(out, list) else [out]
        for x, like in zip(out, leaves, strict=True):
            x.set_shape(like.shape)
        return nest.pack_as(given, out)


def _rows(mask: Tensor) -> Tensor:
    """Return the indices of the true elements of a bool vector, int32."""
    return raw_ops.Cast(raw_ops.Squeeze(raw_ops.Where(mask), squeeze_dims=[1]), DstT="int32")


def _mixed(chosen: Tensor, given: Tensor, make: Callable) -> Tensor:
    """Replace the rows of `given` where `chosen` by ``make(indices)``, which makes only these."""
    new, old = _rows(chosen), _rows(raw_ops.LogicalNot(chosen))
    return raw_ops.DynamicStitch([old, new], [raw_ops.Gather(given, old), make(new)])


class ScheduledEmbeddingTrainingHelper(_ScheduledHelper):
    """A ``TrainingHelper`` that now and then draws a symbol and embeds it as the next input.

    A step's samples are the symbols drawn by their scores, and -1 where none was drawn.

    Args:
        inputs: ``[batch, steps, size]`` (``[steps, batch, size]`` if `time_major`).
        sequence_length: integers ``[batch]``.
        embedding: a table ``[symbols, size]``, or a function of a vector of symbols.
        sampling_probability: of drawing a symbol; a scalar, or one per sequence.
        time_major: time is the first dimension of `inputs`.
        seed: of the symbols drawn.
        scheduling_seed: of the choice whether to draw.
        name: accepted.

    Raises ``ValueError`` for probabilities of more dimensions.
    """

    def __init__(self, inputs: TensorHandle, sequence_length: Tensor, embedding: TensorLike,
                 sampling_probability: Any, time_major: bool = False, seed: int | None = None,
                 scheduling_seed: int | None = None, name: str | None = None) -> None:
        super().__init__(inputs, sequence_length, time_major, name)
        self._set_probability(sampling_probability, scheduling_seed)
        self._embedding_fn = embedding if callable(embedding) else (
            lambda symbols: embedding_lookup(embedding, symbols))
        self._seed = seed

    def sample(self, time: TensorLike, outputs: TensorLike, state: Nest,
               name: str | None = None) -> Any:
        """Symbols drawn with the probabilities softmax(scores), or -1."""
        drawn = raw_ops.Squeeze(multinomial(outputs, 1, self._seed), squeeze_dims=[1])
        drawn = raw_ops.Cast(drawn, DstT="int32")
        none = raw_ops.Neg(raw_ops.OnesLike(drawn))
        return raw_ops.Select(self._choices(), drawn, none)

    def next_inputs(self, time: TensorLike, outputs: TensorLike, state: Any, sample_ids: TensorLike,
                    name: str | None = None) -> tuple[Any, Any, Any]:
        """The next elements, with embedded symbols where some were drawn."""
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids, name)
        chosen = raw_ops.GreaterEqual(sample_ids, np.int32(0))

        def sampled() -> Tensor:
            return _mixed(chosen, given, lambda rows: self._embedding_fn(raw_ops.Gather(sample_ids,
                                                                                 rows)))

        return finished, self._unless_over(finished, chosen, given, sampled), state


class ScheduledOutputTrainingHelper(_ScheduledHelper):
    """A ``TrainingHelper`` that now and then uses a step's own output as the next input.

    A step's samples are 1 where its output is used, else 0.

    Args:
        inputs: ``[batch, steps, ...]`` (``[steps, batch, ...]`` if `time_major`), or a nest.
        sequence_length: integers ``[batch]``.
        sampling_probability: of using an output; a scalar, or one per sequence.
        time_major: time is the first dimension of `inputs`.
        seed: of the choice.
        next_inputs_fn: a function of the rows of outputs that are used; None to use them as they
            are.
        auxiliary_inputs: in the structure of `inputs`, joined to these and to outputs that are
            used, along the last dimension.
        name: accepted.

    Raises ``ValueError`` for probabilities of more dimensions.
    """

    def __init__(self, inputs: Any, sequence_length: Tensor, sampling_probability: Any,
                 time_major: bool = False, seed: int | None = None,
                 next_inputs_fn: Callable | None = None, auxiliary_inputs: Any = None,
                 name: str | None = None) -> None:
        self._auxiliary = None
        if auxiliary_inputs is not None:
            nest.check_same(inputs, auxiliary_inputs, "inputs and auxiliary_inputs")
            self._auxiliary = TrainingHelper(auxiliary_inputs, sequence_length, time_major)
            inputs = _joined(inputs, auxiliary_inputs)
        super().__init__(inputs, sequence_length, time_major, name)
        self._set_probability(sampling_probability, seed)
        self._next_inputs_fn = next_inputs_fn

    def sample(self, time: TensorLike, outputs: TensorLike, state: Nest,
               name: str | None = None) -> Any:
        """Return 1 for each output that becomes the next input, 0 for each that does not."""
        return raw_ops.Cast(self._choices(), DstT="int32")

    def next_inputs(self, time: TensorLike, outputs: TensorLike, state: Any, sample_ids: TensorLike,
                    name: str | None = None) -> tuple[Any, Any, Any]:
        """The next elements, with outputs where these are used."""
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids, name)
        chosen = raw_ops.Cast(sample_ids, DstT="bool")

        def sampled() -> Any:
            rows = _rows(chosen)
            used = self._used(outputs, rows, time)
            nest.check_same(given, used, "inputs and outputs")
            return nest.pack_as(given, [
                _mixed(chosen, x, lambda _, y=y: y)
                for x, y in zip(nest.flatten(given), nest.flatten(used), strict=True)])

        return finished, self._unless_over(finished, chosen, given, sampled), state

    def _used(self, outputs: Any, rows: Tensor, time: TensorLike) -> Any:
        """Return the next inputs that are made from the given rows of the outputs."""
        used = _gathered(outputs, rows)
        used = used if self._next_inputs_fn is None else self._next_inputs_fn(used)
        if self._auxiliary is None:
            return used
        following = self._auxiliary._read(np.array(False), raw_ops.Add(time, np.int32(1)))
        return _joined(used, _gathered(following, rows))


def _gathered(values: Sequence[TensorLike], rows: Tensor) -> Any:
    return nest.pack_as(values, [raw_ops.Gather(x, rows) for x in nest.flatten(values)])


def _joined(first: Any, second: Any) -> Any:
    return nest.pack_as(first, [concat([x, y], -1) for x, y in zip(
        nest.flatten(first), nest.flatten(second), strict=True)])
