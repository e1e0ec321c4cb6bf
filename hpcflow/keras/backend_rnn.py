"""``keras.backend.rnn``: a function of steps over sequences, and convolutions by position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hpcflow as hf
from hpcflow.framework import nest
from hpcflow.keras.settings import image_data_format


def rnn(step_function: Callable, inputs: Any, initial_states: Sequence, go_backwards: bool = False,
        mask: Any = None, constants: Any = None, unroll: bool = False,
        input_length: Any = None, time_major: bool = False,
        zero_output_for_mask: bool = False) -> tuple[Any, Any, Any]:
    """Return the last output of a function that is applied step by step, all outputs, and the last
    states.

    Args:
        step_function: ``(inputs, states)`` of a step, of shape ``[batch, ...]``, to its output and
            the states after it; `constants` follow the states.
        inputs: shape ``[batch, time, ...]``, or with `time_major` ``[time, batch, ...]``; or a nest
            of such.
        initial_states: the states before the first step.
        go_backwards: whether the last step comes first.
        mask: which steps there are: at the others the states stay, and the output is that of the
            step before, or with `zero_output_for_mask` zeros.
        unroll: whether the steps are built one by one.
        input_length: most steps, of a loop.

    Raises ``ValueError`` for steps that are built one by one and whose number is not known, and for
    a mask without states.
    """
    sequences = nest.map_structure(lambda x: _turned(x, time_major, go_backwards), inputs)
    if mask is not None:
        mask = hf.cast(mask, hf.bool)
        mask = hf.expand_dims(mask, -1) if mask.shape.ndims == 2 else mask
        mask = _turned(mask, time_major, go_backwards)
    states, constants = tuple(initial_states), tuple(constants or ())

    def step(x: Any, present: Any, before: Any, states: tuple) -> tuple[Any, tuple]:
        output, after = step_function(x, states + constants)
        if present is None:
            return output, tuple(after)
        before = nest.map_structure(hf.zeros_like, output) if zero_output_for_mask else before
        chosen = [_where(present, new, old) for new, old in zip(
            nest.flatten([output, *after]), nest.flatten([before, *states]), strict=True)]
        count = len(nest.flatten(output))
        return (nest.pack_sequence_as(output, chosen[:count]),
                nest.pack_sequence_as(tuple(after), chosen[count:]))

    first = nest.flatten(sequences)[0]
    if unroll:
        outputs, states = _unrolled(step, sequences, mask, states)
    else:
        if mask is not None and not states:
            raise ValueError("No initial states provided! When using masking in an RNN, you should "
                             "provide initial states (and your step function should return as its "
                             "first state at time `t` the output at time `t-1`).")
        outputs, states = _looped(step, sequences, mask, states, input_length)
    for output in nest.flatten(outputs):
        output.set_shape(first.shape[:2].concatenate(output.shape[2:]))
    last = nest.map_structure(lambda x: x[-1], outputs)
    return last, nest.map_structure(lambda x: _turned(x, time_major, False), outputs), states


def _turned(x: Any, time_major: bool, backwards: bool) -> Any:
    """A sequence with time and batch exchanged unless the time comes first already."""
    x = hf.convert_to_tensor(x)
    if not time_major:
        x = hf.transpose(x, [1, 0, *range(2, x.shape.ndims)])
    return hf.reverse(x, [0]) if backwards else x


def _where(present: Any, new: Any, old: Any) -> Any:
    """`new` for the examples that have the step, `old` for the others."""
    for _ in range(new.shape.ndims - present.shape.ndims):
        present = hf.expand_dims(present, -1)
    return hf.where(hf.logical_and(present, hf.ones_like(new, dtype=hf.bool)), new, old)


def _unrolled(step: Callable, sequences: Any, mask: Any, states: tuple) -> tuple[Any, tuple]:
    count = nest.flatten(sequences)[0].shape[0].value
    if not count:
        raise ValueError("Unrolling requires a fixed number of timesteps.")
    outputs: list = []
    for n in range(count):
        x = nest.map_structure(lambda t, n=n: t[n], sequences)
        if mask is None:
            output, states = step(x, None, None, states)
        else:
            before = outputs[-1] if outputs else _zeros_of(step, x, states)
            output, states = step(x, mask[n], before, states)
        outputs.append(output)
    return nest.map_structure(lambda *parts: hf.stack(parts), *outputs), states


def _zeros_of(step: Callable, x: Any, states: tuple) -> Any:
    """Zeros in the form of an output."""
    return nest.map_structure(hf.zeros_like, step(x, None, None, states)[0])


def _looped(step: Callable, sequences: Any, mask: Any, states: tuple,
            most: Any) -> tuple[Any, tuple]:
    count = hf.shape(nest.flatten(sequences)[0])[0]
    zeros = _zeros_of(step, nest.map_structure(lambda t: t[0], sequences), states)
    flat = nest.flatten(zeros)
    kept = [hf.TensorArray(z.dtype, count, element_shape=z.shape) for z in flat]

    def body(n: Any, arrays: list, before: Any, now: tuple) -> tuple:
        x = nest.map_structure(lambda t: t[n], sequences)
        output, after = step(x, None if mask is None else mask[n], before, now)
        after = nest.pack_sequence_as(now, nest.flatten(after))
        for new, old in zip(nest.flatten(after), nest.flatten(now), strict=True):
            new.set_shape(old.shape)
        arrays = [a.write(n, v) for a, v in zip(arrays, nest.flatten(output), strict=True)]
        return n + 1, arrays, output if mask is not None else before, after

    _, arrays, _, after = hf.while_loop(
        lambda n, *_: n < count, body, (hf.constant(0), kept, zeros, states),
        maximum_iterations=most)
    return nest.pack_sequence_as(zeros, [a.stack() for a in arrays]), after


# ---------------------------------------------------------------- convolutions by position


def local_conv1d(inputs: Any, kernel: Any, kernel_size: Any, strides: Any,
                 data_format: str | None = None) -> Any:
    """Return a convolution over sequences with weights of their own at each position: a kernel of
    shape ``[positions, size * channels, filters]``. Sizes and strides are tuples of one number."""
    return local_conv(inputs, kernel, kernel_size, strides, (kernel.shape[0].value,), data_format)


def local_conv2d(inputs: Any, kernel: Any, kernel_size: Any, strides: Any, output_shape: Any,
                 data_format: str | None = None) -> Any:
    """Return a convolution over images with weights of their own at each position, of which there
    are `output_shape`; see :func:`local_conv1d`."""
    return local_conv(inputs, kernel, kernel_size, strides, tuple(output_shape), data_format)


def local_conv(inputs: Any, kernel: Any, size: Any, strides: Any, after: tuple,
               data_format: str | None = None) -> Any:
    """Return a convolution with weights of their own at each of the positions `after`, along one
    dimension or two; see :func:`local_conv1d`."""
    rank, first = len(after), (data_format or image_data_format()) == "channels_first"
    images = hf.transpose(inputs, [0, *range(2, 2 + rank), 1]) if first else inputs
    if rank == 1:
        images = hf.expand_dims(images, 1)
    ones = [1] * (2 - rank)
    found = hf.extract_image_patches(images, [1, *ones, *size, 1], [1, *ones, *strides, 1],
                                     [1, 1, 1, 1], "VALID")
    positions, width, filters = kernel.shape.as_list()
    if first:  # the channels of a patch come before its places
        channels = inputs.shape[1].value
        found = hf.reshape(found, [-1, positions, width // channels, channels])
        found = hf.transpose(found, [0, 1, 3, 2])
    patches = hf.transpose(hf.reshape(found, [-1, positions, width]), [1, 0, 2])
    sums = hf.transpose(hf.matmul(patches, kernel), [1, 0, 2])
    outputs = hf.reshape(sums, [-1, *after, filters])
    return hf.transpose(outputs, [0, 1 + rank, *range(1, 1 + rank)]) if first else outputs
