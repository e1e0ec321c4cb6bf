"""Kernels that draw random numbers.

Every op has a generator of its own for the session: Philox keyed by the op's two seeds, so that
the sequence is the same on every run, on every device and in whatever form a step is executed.
Both seeds 0 mean a key from the system's entropy, in the deterministic mode one from the op's name.
The numbers, classes and orders are those that TensorFlow draws.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import config
from hpcflow.kernels.common.device_windows import programs_of
from hpcflow.kernels.common.sizes import check_count
from hpcflow.kernels.compiled import array_loops
from hpcflow.kernels.random import device_numbers, numbers
from hpcflow.kernels.random.philox import Sequence, Start
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.loops import compiling

_MASK = (1 << 64) - 1
# Blocks that a run has to itself, for each of its numbers.
_SPARE_BLOCKS = 256


def make_generator(seed: int, seed2: int, name: str) -> np.random.Generator:
    """Return a generator for a pair of seeds; both 0: unpredictable, or by the op's `name`."""
    if config.flags.deterministic and seed == 0 and seed2 == 0:
        seed2 = zlib.crc32(name.encode()) + 1
    if seed == 0 and seed2 == 0:
        return np.random.Generator(np.random.Philox())
    key = np.array([seed & _MASK, seed2 & _MASK], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def _generator(node: KernelNode) -> np.random.Generator:
    seed, seed2 = node.attr("seed", 0), node.attr("seed2", 0)
    return node.state(lambda: make_generator(seed, seed2, node.name))


def sequence_of(node: KernelNode) -> Sequence:
    """The generator of an op: the same in all steps of a session."""
    seed, seed2 = node.attr("seed", 0), node.attr("seed2", 0)
    return node.state(lambda: Sequence(seed, seed2, node.name))


def to_dims(shape: Any) -> tuple[int, ...]:
    """The dims that a shape vector gives; InvalidArgumentError if it gives none."""
    if np.ndim(shape) != 1:
        raise invalid("shape must be a vector of {int32,int64}, got shape "
                      f"{list(np.shape(shape))}")
    dims = tuple(int(d) for d in shape)
    if any(d < 0 for d in dims):
        raise invalid(f"shape must not have negative dimensions: {shown(dims)}")
    check_count(dims)
    return dims


_KINDS = {"RandomUniform": "uniform", "RandomStandardNormal": "normal",
          "TruncatedNormal": "truncated"}


def _register_draw(op_type: str, fill: Callable[[Start, np.ndarray], np.ndarray]) -> None:
    """Register an op whose only input is the shape."""

    def factory(node: KernelNode) -> Callable:
        sequence, dtype, known = sequence_of(node), node.np_dtype(), node.constant(0)
        dims = None if known is None else to_dims(known)

        def draw(dims: tuple[int, ...], out: Any = None) -> Any:
            start = sequence.take(_SPARE_BLOCKS * math.prod(dims))
            return numbers.drawn(fill, start, dims, dtype, out)

        if node.xp is not np:
            return _on_device(node, op_type, sequence, draw, dims)
        if dims == ():
            return _scalar_draw(sequence, fill, dtype)
        if dims is not None:
            return lambda shape, out=None: draw(dims, out)
        return lambda shape, out=None: draw(to_dims(shape), out)

    kernel(op_type, fresh=True, accepts_out=True, host_inputs=(0,))(factory)


def _on_device(node: KernelNode, op_type: str, sequence: Sequence, draw: Callable,
               dims: tuple[int, ...] | None) -> Callable:
    """Drawn on the device where there is a kernel for that, else on the host."""
    drawn, dtype = node.device.drawn, node.np_dtype()
    fill = device_numbers.filler(programs_of(node.device), node.xp, _KINDS[op_type], dtype)
    if fill is None:
        return lambda shape: drawn(functools.partial(
            draw, to_dims(shape) if dims is None else dims))

    def run(shape: Any) -> Any:
        wanted = to_dims(shape) if dims is None else dims
        blocks = _SPARE_BLOCKS * math.prod(wanted)
        return fill(drawn(lambda: sequence.take(blocks).words64()), wanted)

    return run


def uniform_numbers(node: KernelNode) -> Callable[[tuple[int, ...]], Any]:
    """``draw(dims)``: uniform numbers of the type of the op's first output, on its device, from its
    own sequence."""
    sequence, dtype = sequence_of(node), node.np_dtype()

    def draw(dims: tuple[int, ...]) -> Any:
        start = sequence.take(_SPARE_BLOCKS * math.prod(dims))
        return numbers.drawn(numbers.uniform, start, dims, dtype)

    return draw if node.xp is np else _on_device(node, "RandomUniform", sequence, draw, None)


def random_start(node: KernelNode) -> Callable[[], Start]:
    """``start()``: a place in the op's own sequence that no other draw has."""
    sequence = sequence_of(node)
    return lambda: sequence.take(1)


def _scalar_draw(sequence: Sequence, fill: Callable, dtype: np.dtype) -> Callable:
    """Scalars are NumPy scalars where there is no array to fill."""
    of_words = numbers.OF_WORDS.get(fill)

    def draw() -> Any:
        if of_words is None:
            return numbers.drawn(fill, sequence.take(_SPARE_BLOCKS), (), dtype)[()]
        return sequence.scalar(_SPARE_BLOCKS, lambda words: of_words(words, dtype))

    def run(shape: Any, out: Any = None) -> Any:
        if out is None:
            return draw()
        out[...] = draw()
        return out

    return run


_register_draw("RandomUniform", numbers.uniform)
_register_draw("RandomStandardNormal", numbers.normal)
_register_draw("TruncatedNormal", numbers.truncated_normal)


# ---------------------------------------------------------------- with parameters


def _sent(node: KernelNode, function: Callable) -> Callable:
    """`function` of values of the host, whose result goes to the device."""
    send = node.device.to_device
    return lambda *inputs: send(function(*inputs))


def register_host(*op_types: str) -> Callable:
    """Register factories of functions on host values; the result goes to the device."""

    def register(factory: Callable[[KernelNode], Callable]) -> Callable:
        def on_device(node: KernelNode) -> Callable:
            function = factory(node)
            return function if node.xp is np else _sent(node, function)

        kernel(*op_types, fresh=True, host_inputs=tuple(range(5)))(on_device)
        return factory

    return register


@register_host("RandomUniformInt")
def _uniform_integers(node: KernelNode) -> Callable:
    sequence, dtype = sequence_of(node), node.np_dtype()

    def draw(shape: Any, low: Any, high: Any) -> Any:
        dims = to_dims(shape)
        if 0 in dims:
            return np.empty(dims, dtype)
        if low >= high:
            raise invalid(f"Need minval < maxval, got {low} >= {high}")
        start = sequence.take(_SPARE_BLOCKS * math.prod(dims))
        return numbers.integers(start, dims, low, high, dtype)[()]

    return draw


@kernel("RandomUniformInt", device="GPU", fresh=True, host_inputs=(0, 1, 2))
def _uniform_integers_there(node: KernelNode) -> Callable:
    """Drawn on the device."""
    sequence, dtype, drawn = sequence_of(node), node.np_dtype(), node.device.drawn
    fill = device_numbers.filler(programs_of(node.device), node.xp, "integers", dtype)
    if fill is None:
        return _sent(node, _uniform_integers(node))

    def run(shape: Any, low: Any, high: Any) -> Any:
        dims = to_dims(shape)
        if 0 not in dims and low >= high:
            raise invalid(f"Need minval < maxval, got {low} >= {high}")
        blocks = _SPARE_BLOCKS * math.prod(dims)
        return fill(drawn(lambda: sequence.take(blocks).words64()), dims,
                    *device_numbers.limits(low, high))

    return run


@register_host("Multinomial")
def _multinomial(node: KernelNode) -> Callable:
    sequence, dtype = sequence_of(node), node.np_dtype()

    def draw(logits: Any, num_samples: Any) -> np.ndarray:
        count = samples_asked(logits, num_samples)
        return drawn_classes(sequence.take(_blocks_of_samples(logits, count)), logits, count,
                              dtype)

    return draw


def drawn_classes(start: Start, logits: Any, count: int, dtype: np.dtype) -> np.ndarray:
    """`count` classes for each row of `logits`."""
    points = numbers.Stream(start).random(len(logits) * count).reshape(len(logits), count)
    return _classes(points, np.asarray(logits, np.float64)).astype(dtype, copy=False)


def samples_asked(logits: Any, num_samples: Any) -> int:
    """How many samples of each row; InvalidArgumentError if there can be none."""
    count = int(num_samples)
    if logits.ndim != 2:
        raise invalid(f"logits should be a matrix, got shape {shown(logits)}")
    if count < 0:
        raise invalid(f"num_samples must not be negative, got {count}")
    if not logits.shape[1] and logits.shape[0] and count:
        raise invalid(f"num_classes should be positive, got logits {shown(logits)}")
    return count


def _blocks_of_samples(logits: Any, count: int) -> int:
    return _SPARE_BLOCKS * 2 * len(logits) * (-(-count // 4) * 4)


@kernel("Multinomial", device="GPU", fresh=True, host_inputs=(1,))
def _multinomial_there(node: KernelNode) -> Callable:
    """Drawn on the device: the classes of the CPU, unless a point is at the very edge of two."""
    sequence, dtype, xp = sequence_of(node), node.np_dtype(), node.xp
    programs, drawn = programs_of(node.device), node.device.drawn
    if programs is None:
        there, bring = _sent(node, _multinomial(node)), node.device.to_host
        return lambda logits, count: there(bring(logits), count)
    fill = programs.elements(device_numbers.class_kernel(dtype.name))

    def run(logits: Any, num_samples: Any) -> Any:
        count = samples_asked(logits, num_samples)
        rows, classes = logits.shape
        blocks = _blocks_of_samples(logits, count)
        start = drawn(lambda: sequence.take(blocks).words64())
        made = xp.empty((rows, count), dtype)
        if made.size:
            edges = xp.cumsum(_weights(xp, logits.astype(np.float64)), axis=1)
            fill(made.size, start, xp.ascontiguousarray(edges), made, count, classes)
        return made

    return run


def _weights(xp: Any, logits: Any) -> Any:
    """The weight of each class; infinite or undefined logits have none, as in the reference."""
    finite = xp.isfinite(logits)
    top = xp.where(finite, logits, -np.inf).max(axis=1, keepdims=True)
    return xp.where(finite, xp.exp(xp.where(finite, logits - top, -np.inf)), 0.0)


def _classes(points: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Classes at `points` in [0, 1) of each row's cumulative distribution."""
    samples = np.zeros(points.shape, np.int64)
    if not samples.size:
        return samples
    cumulative = np.cumsum(_weights(np, logits), axis=1)
    points = points * cumulative[:, -1:]
    for row, (edges, values) in enumerate(zip(cumulative, points)):
        samples[row] = np.searchsorted(edges, values, side="right")
    return np.minimum(samples, logits.shape[1] - 1)


_SWAPS = """
def loop(offsets, order):
    for i in range(offsets.size):
        j = i + offsets[i]
        order[i], order[j] = order[j], order[i]
"""


@kernel("RandomShuffle", fresh=True)
def _shuffle(node: KernelNode) -> Callable:
    sequence, xp = sequence_of(node), node.xp

    def shuffle(value: Any) -> Any:
        if not getattr(value, "shape", ()):
            return value.copy() if hasattr(value, "copy") else value
        order = _shuffled(sequence, value.shape[0])
        return value[order if xp is np else node.device.to_device(order)]

    return shuffle


def _shuffled(sequence: Sequence, count: int) -> np.ndarray:
    """The numbers below `count` in random order: each place gets one of those that are left."""
    blocks = -(-count // 4)
    words = sequence.take(blocks).words(0, blocks)[: max(count - 1, 0)]
    order = np.arange(count)
    offsets = words.astype(np.int64) % np.arange(count, 1, -1)
    loop = array_loops.find(_SWAPS, [offsets], [(1, np.int64)])
    if loop is not None and loop.function is not None:
        loop.function(offsets, order)
        return order
    return compiling.timed(loop, lambda: _swapped(offsets, order))


def _swapped(offsets: np.ndarray, order: np.ndarray) -> np.ndarray:
    found = order.tolist()
    for i, offset in enumerate(offsets.tolist()):
        j = i + offset
        found[i], found[j] = found[j], found[i]
    return np.array(found, order.dtype)


@register_host("RandomCrop")
def _crop(node: KernelNode) -> Callable:
    rng = _generator(node)

    def crop(image: Any, size: Any) -> np.ndarray:
        height, width = (int(s) for s in size)
        if image.shape[0] < height or image.shape[1] < width:
            raise invalid(f"the image is smaller than the crop: {shown(image)} < "
                          f"[{height},{width}]")
        top = rng.integers(0, image.shape[0] - height, endpoint=True)
        left = rng.integers(0, image.shape[1] - width, endpoint=True)
        return image[top : top + height, left : left + width].copy()

    return crop
