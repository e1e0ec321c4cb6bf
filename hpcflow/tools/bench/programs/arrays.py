"""Single ops that move, index, sort or reduce arrays, for `bench arrays`.

The same file runs in hpcflow and a peer with the 1.x graph API. Inputs are variables, so that
nothing is fed and nothing can be folded; a step fetches the results. A case is given by its
options: ``kind`` is a key of `KINDS`, ``dims`` and ``dtype`` describe the array, ``args`` are
further arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np


def open_case(tf: ModuleType, case, options):
    """Build a case in a graph and session of its own: (function that runs one step, close)."""
    threads = options["threads"]
    config = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    with tf.Graph().as_default() as graph:
        session = tf.Session(graph=graph, config=config)
        x = array(tf, options["dims"], options["dtype"])
        fetches = KINDS[options["kind"]](tf, x, **options["args"])
        session.run(tf.global_variables_initializer())
    return lambda: session.run(fetches), session.close


def array(tf: ModuleType, dims, dtype, seed=0):
    """A variable of random numbers: floats around one, small integers."""
    random = np.random.default_rng(seed + sum(dims))
    if np.dtype(dtype).kind == "f":
        values = random.uniform(0.5, 1.5, dims)
    else:
        values = random.integers(0, 2 if dtype == "bool" else 100, dims)
    return tf.Variable(tf.constant(values.astype(dtype)))


def another(tf: ModuleType, x, seed: int = 1):
    """A second variable like `x`."""
    return array(tf, x.shape.as_list(), x.dtype.base_dtype.as_numpy_dtype, seed)


def numbers(tf: ModuleType, dims, limit, dtype=np.int32, ordered=False):
    """A variable of random numbers below `limit`."""
    values = np.random.default_rng(sum(dims)).integers(limit, size=dims).astype(dtype)
    return tf.Variable(tf.constant(np.sort(values) if ordered else values))


def like(tf: ModuleType, x, inputs):
    """Return a list of `inputs` variables shaped like `x`, the first of them `x`."""
    return [x, *(another(tf, x, i) for i in range(1, inputs))]


def mask(tf: ModuleType, x):
    """A variable of booleans of the shape of `x`, half of them true."""
    return tf.Variable(tf.constant(np.random.default_rng(1).random(x.shape.as_list()) < 0.5))


def length(x, axis: int = 0):
    """The size of a dimension."""
    return x.shape.as_list()[axis]


def gather(tf: ModuleType, x, count: int, axis: int = 0):
    """Gather `count` random positions along an axis."""
    return tf.gather(x, numbers(tf, [count], length(x, axis)), axis=axis)


def places(tf: ModuleType, x, count: int, depth: int):
    """A variable of the coordinates of `count` random places, by `depth` dimensions."""
    columns = [np.random.default_rng(i).integers(n, size=count)
               for i, n in enumerate(x.shape.as_list()[:depth])]
    return tf.Variable(tf.constant(np.stack(columns, 1).astype(np.int32)))


def gather_nd(tf: ModuleType, x, count: int, depth: int):
    """Random elements, or slices."""
    return tf.gather_nd(x, places(tf, x, count, depth))


def scatter_nd(tf: ModuleType, x, rows: int):
    """All rows added to random rows of zeros."""
    return tf.scatter_nd(places(tf, tf.zeros([rows]), length(x), 1), x,
                         [rows, *x.shape.as_list()[1:]])


def one_hot(tf: ModuleType, x, depth: int, axis=-1):
    """Marks of random numbers; `x` gives their shape."""
    return tf.one_hot(numbers(tf, x.shape.as_list(), depth), depth, axis=axis)


def segment(tf: ModuleType, x, name: str, count: int):
    """A reduction of sorted segments of rows."""
    return getattr(tf, f"segment_{name}")(x, numbers(tf, [length(x)], count, ordered=True))


def unsorted(tf: ModuleType, x, name: str, count: int):
    """A reduction of rows by their random numbers."""
    return getattr(tf, f"unsorted_segment_{name}")(x, numbers(tf, [length(x)], count), count)


def sparse_segment(tf: ModuleType, x, name: str, count: int):
    """A reduction of random rows."""
    rows = length(x)
    return getattr(tf, f"sparse_segment_{name}")(
        x, numbers(tf, [rows], rows), numbers(tf, [rows], count, ordered=True))


def strided_slice_grad(tf: ModuleType, x, step):
    """Return the gradient of a strided slice: `x` in the places of the slice, zeros elsewhere."""
    dims = [n * step for n in x.shape.as_list()]
    zeros, ends = [0] * len(dims), [step] * len(dims)
    return tf.raw_ops.StridedSliceGrad(shape=dims, begin=zeros, end=dims, strides=ends, dy=x)


def stitch(tf: ModuleType, x, parts):
    """The rows of `x` in parts, put back in a random order."""
    order = np.random.default_rng(0).permutation(length(x)).astype(np.int32)
    rows = [tf.Variable(tf.constant(o)) for o in np.split(order, parts)]
    return tf.dynamic_stitch(rows, tf.split(x, parts))


def reverse_sequence(tf: ModuleType, x):
    """Rows whose first parts are turned round."""
    lengths = numbers(tf, [length(x)], length(x, 1))
    return tf.reverse_sequence(x, lengths, seq_axis=1, batch_axis=0)


def sparse_to_dense(tf: ModuleType, x, size: int):
    """Elements at sorted places."""
    rows = np.sort(np.random.default_rng(0).permutation(size)[: length(x)]).astype(np.int32)
    return tf.sparse_to_dense(tf.Variable(tf.constant(rows)), [size], x, validate_indices=False)


def partition(tf: ModuleType, x, parts):
    """Rows, dealt out at random."""
    return tf.dynamic_partition(x, numbers(tf, [length(x)], parts), parts)


def batch_gather(tf: ModuleType, x, count: int):
    """Random elements of each row."""
    indices = numbers(tf, [length(x), count], length(x, 1))
    return tf.raw_ops.GatherV2(params=x, indices=indices, axis=1, batch_dims=1)


KINDS: dict[str, Callable[..., Any]] = {
    "transpose": lambda tf, x, perm: tf.transpose(x, perm),
    "reverse": lambda tf, x, axis: tf.reverse(x, axis),
    "tile": lambda tf, x, multiples: tf.tile(x, multiples),
    "concat": lambda tf, x, axis, inputs=2: tf.concat(like(tf, x, inputs), axis),
    "stack": lambda tf, x, axis, inputs=2: tf.stack(like(tf, x, inputs), axis),
    "unstack": lambda tf, x, axis: tf.unstack(x, axis=axis),
    "split": lambda tf, x, axis, parts: tf.split(x, parts, axis),
    "pad": lambda tf, x, paddings, mode="CONSTANT": tf.pad(x, paddings, mode),
    "pad_value": lambda tf, x, paddings: tf.raw_ops.PadV2(
        input=x, paddings=paddings, constant_values=np.float32(1)),
    "slice": lambda tf, x, begin, size: tf.slice(x, begin, size),
    "every_second": lambda tf, x, axis: x[(slice(None),) * axis + (slice(None, None, 2),)],
    "strided_slice_grad": strided_slice_grad,
    "broadcast": lambda tf, x, dims: tf.broadcast_to(x, dims),
    "roll": lambda tf, x, shift, axis: tf.roll(x, shift, axis),
    "gather": gather,
    "gather_nd": gather_nd,
    "batch_gather": batch_gather,
    "scatter_nd": scatter_nd,
    "one_hot": one_hot,
    "where": lambda tf, x: tf.where(mask(tf, x)),
    "select": lambda tf, x: tf.where(mask(tf, x), x, another(tf, x)),
    "boolean_mask": lambda tf, x: tf.boolean_mask(x, mask(tf, x)),
    "unique": lambda tf, x, limit: tf.unique(numbers(tf, x.shape.as_list(), limit)),
    "top_k": lambda tf, x, k: tf.nn.top_k(x, k),
    "in_top_k": lambda tf, x, k: tf.nn.in_top_k(
        predictions=x, targets=numbers(tf, [length(x)], length(x, 1)), k=k),
    "bincount": lambda tf, x, limit: tf.raw_ops.Bincount(
        arr=numbers(tf, x.shape.as_list(), limit), size=limit, weights=np.zeros(0, np.float32)),
    "histogram": lambda tf, x, bins: tf.histogram_fixed_width(x, [0.0, 2.0], bins),
    "cumsum": lambda tf, x, axis, **options: tf.cumsum(x, axis, **options),
    "cumprod": lambda tf, x, axis, **options: tf.cumprod(x, axis, **options),
    "reduce": lambda tf, x, name, axis=None: getattr(tf, f"reduce_{name}")(x, axis),
    "arg": lambda tf, x, name, axis: getattr(tf, f"arg{name}")(x, axis),
    "l2_loss": lambda tf, x: tf.nn.l2_loss(x),
    "add_n": lambda tf, x, inputs: tf.add_n(like(tf, x, inputs)),
    "segment": segment,
    "unsorted": unsorted,
    "sparse_segment": sparse_segment,
    "space_to_depth": lambda tf, x, block: tf.space_to_depth(x, block),
    "depth_to_space": lambda tf, x, block: tf.depth_to_space(x, block),
    "space_to_batch": lambda tf, x, block: tf.space_to_batch_nd(x, [block] * 2, [[0, 0]] * 2),
    "batch_to_space": lambda tf, x, block: tf.batch_to_space_nd(x, [block] * 2, [[0, 0]] * 2),
    "patches": lambda tf, x, size: tf.extract_image_patches(
        x, [1, size, size, 1], [1, size, size, 1], [1, 1, 1, 1], "VALID"),
    "cast": lambda tf, x, to: tf.cast(x, to),
    "fill": lambda tf, x: tf.zeros_like(x) if x.shape.ndims == 1 else tf.ones_like(x),
    "range": lambda tf, x: tf.range(tf.cast(tf.reduce_sum(x[:1] * 0), tf.int32), length(x)),
    "diag": lambda tf, x: tf.matrix_diag(x),
    "diag_part": lambda tf, x: tf.matrix_diag_part(x),
    "band": lambda tf, x, below, above: tf.matrix_band_part(x, below, above),
    "partition": partition,
    "stitch": stitch,
    "reverse_sequence": reverse_sequence,
    "sequence_mask": lambda tf, x, limit: tf.sequence_mask(
        numbers(tf, x.shape.as_list(), limit), limit),
    "invert": lambda tf, x: tf.invert_permutation(tf.Variable(tf.constant(
        np.random.default_rng(0).permutation(length(x)).astype(np.int32)))),
    "sparse_to_dense": sparse_to_dense,
}
