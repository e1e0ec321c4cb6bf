"""Single ops of the 1.x graph API for `bench kernels`; the same file runs in hpcflow and a peer.

Inputs are variables, so that nothing is fed and nothing can be folded; a step fetches the results.
A case is given by its options: ``kind`` names a function here, ``args`` are its arguments; with
``quiet`` a step keeps a number of every result, and fetches nothing.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np


def open_case(tf: ModuleType, case, options):
    """Build a case in a graph and session of its own: (function that runs one step, close)."""
    threads = options["threads"]
    config = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    with tf.Graph().as_default() as graph:
        session = tf.Session(graph=graph, config=config)
        fetches = KINDS[options["kind"]](tf, **options["args"])
        if options.get("quiet"):
            fetches = kept(tf, fetches)
        session.run(tf.global_variables_initializer())
    return lambda: session.run(fetches), session.close


def kept(tf: ModuleType, fetches):
    """An op that needs the results, of which it keeps a number each."""
    results = fetches if isinstance(fetches, (list, tuple)) else [fetches]
    by_op = {getattr(result, "op", result): result for result in results}
    tensors = [r for r in by_op.values() if isinstance(r, tf.Tensor)]
    firsts = [tf.cast(tf.reshape(r, [-1])[:1], tf.float32) for r in tensors]
    keep = [tf.assign(tf.Variable(tf.zeros([1])), first).op for first in firsts]
    return tf.group(*keep, *[r for r in by_op.values() if not isinstance(r, tf.Tensor)])


def constant(tf: ModuleType, *dims, scale=1.0, seed=0):
    """A constant of random numbers."""
    values = np.random.default_rng(seed + sum(dims)).standard_normal(dims, np.float32)
    return tf.constant(values * np.float32(scale))


def normal(tf: ModuleType, *dims, half: bool = False, **options):
    """A variable of random numbers."""
    values = constant(tf, *dims, **options)
    return tf.Variable(tf.cast(values, tf.float16) if half else values)


def numbers(tf: ModuleType, count: int, limit: int):
    """A variable of `count` random row numbers."""
    values = np.random.default_rng(count).integers(limit, size=count).astype(np.int32)
    return tf.Variable(tf.constant(values))


def matmul(tf: ModuleType, m: int, k: int, n: int, transpose_a: bool = False,
           transpose_b: bool = False, half: bool = False):
    """A product of matrices."""
    a = normal(tf, *((k, m) if transpose_a else (m, k)), half=half)
    b = normal(tf, *((n, k) if transpose_b else (k, n)), half=half)
    return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def batch_matmul(tf: ModuleType, batch: int, m: int, k: int, n: int):
    """Many products of small matrices."""
    return tf.matmul(normal(tf, batch, m, k), normal(tf, batch, k, n))


def dense(tf: ModuleType, batch: int, inputs, outputs):
    """A fully connected layer with bias and relu."""
    x, w, b = normal(tf, batch, inputs), normal(tf, inputs, outputs), normal(tf, outputs)
    return tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), b))


def _sizes(image, window, stride, same):
    batch, height, width, depth = image
    *reach, outer = window
    space = [-(-n // stride) if same else (n - r) // stride + 1
             for n, r in zip((height, width), reach)]
    return (*reach, depth, outer), (batch, *space, outer)


def conv(tf: ModuleType, image, window: int, stride: int = 1, same: bool = True,
         part: str = "forward", half: bool = False):
    """A convolution, or one of its gradients: `window` is height, width, outputs."""
    filter_dims, out_dims = _sizes(image, window, stride, same)
    options = {"strides": [1, stride, stride, 1], "padding": "SAME" if same else "VALID"}
    if part == "forward":
        return tf.nn.conv2d(normal(tf, *image, half=half), normal(tf, *filter_dims, half=half),
                            **options)
    dy = normal(tf, *out_dims, half=half)
    if part == "input":
        return tf.nn.conv2d_backprop_input(
            list(image), normal(tf, *filter_dims, half=half), dy, **options)
    return tf.nn.conv2d_backprop_filter(
        normal(tf, *image, half=half), list(filter_dims), dy, **options)


def depthwise(tf: ModuleType, image, window: int, stride: int = 1):
    """A convolution of each channel by itself."""
    w = normal(tf, window, window, image[-1], 1)
    return tf.nn.depthwise_conv2d_native(normal(tf, *image), w, [1, stride, stride, 1], "SAME")


def conv_bias_relu(tf: ModuleType, image, window: int):
    """A layer of a network."""
    filter_dims, out_dims = _sizes(image, window, 1, True)
    y = tf.nn.conv2d(normal(tf, *image), normal(tf, *filter_dims), [1, 1, 1, 1], "SAME")
    return tf.nn.relu(tf.nn.bias_add(y, normal(tf, out_dims[-1])))


def pool(tf: ModuleType, image, window: int, stride: int, mean: bool = False,
         backward: int = False):
    """Pooling without padding, or its gradient."""
    x = normal(tf, *image)
    options = {"ksize": [1, window, window, 1], "strides": [1, stride, stride, 1],
               "padding": "VALID"}
    y = (tf.nn.avg_pool if mean else tf.nn.max_pool)(x, **options)
    if not backward:
        return y
    batch, height, width, depth = image
    dims = batch, (height - window) // stride + 1, (width - window) // stride + 1, depth
    dy = normal(tf, *dims, seed=1)
    if mean:
        return tf.raw_ops.AvgPoolGrad(orig_input_shape=list(image), grad=dy, **options)
    # The forward result is kept by a variable, as a training step keeps it.
    kept = tf.Variable(tf.nn.max_pool(constant(tf, *image), **options))
    return tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=kept, grad=dy, **options)


def lrn(tf: ModuleType, image, radius, backward: int = False):
    """Local response normalization, or its gradient."""
    x = normal(tf, *image)
    options = {"depth_radius": radius, "bias": 2.0, "alpha": 1e-4, "beta": 0.75}
    if not backward:
        return tf.nn.lrn(x, **options)
    kept = tf.Variable(tf.nn.lrn(constant(tf, *image), **options))
    return tf.raw_ops.LRNGrad(input_grads=normal(tf, *image, seed=1), input_image=x,
                              output_image=kept, **options)


def batch_norm(tf: ModuleType, image, backward: int = False):
    """Batch normalization in training, or its gradient."""
    x, channels = normal(tf, *image), image[-1]
    scale, offset = normal(tf, channels), normal(tf, channels, seed=1)
    if not backward:
        return tf.nn.fused_batch_norm(x, scale, offset)
    zero = tf.Variable(tf.zeros([channels]))
    one = tf.Variable(tf.ones([channels]))
    return tf.raw_ops.FusedBatchNormGrad(
        y_backprop=normal(tf, *image, seed=1), x=x, scale=scale, reserve_space_1=zero,
        reserve_space_2=one, epsilon=0.001)[:3]


def softmax(tf: ModuleType, rows: int, columns: int, log: bool = False):
    """Rows that add up to one, or their logarithms."""
    return (tf.nn.log_softmax if log else tf.nn.softmax)(normal(tf, rows, columns))


def cross_entropy(tf: ModuleType, rows: int, columns: int, sparse: bool = False):
    """Losses of the rows and the gradient of their sum."""
    logits = normal(tf, rows, columns)
    if sparse:
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=numbers(tf, rows, columns), logits=logits)
    else:
        labels = tf.Variable(tf.nn.softmax(constant(tf, rows, columns, seed=1)))
        loss = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return [loss, *tf.gradients(loss, [logits])]


def lstm(tf: ModuleType, batch: int, units: int, backward: int = False):
    """A step of an LSTM cell, and all its gradients."""
    x, h, c = (normal(tf, batch, units, seed=i) for i in range(3))
    w = normal(tf, 2 * units, 4 * units, scale=0.05)
    b = normal(tf, 4 * units)
    i, j, f, o = tf.split(tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), w), b), 4, 1)
    new_c = c * tf.sigmoid(f) + tf.sigmoid(i) * tf.tanh(j)
    new_h = tf.tanh(new_c) * tf.sigmoid(o)
    if not backward:
        return [new_h, new_c]
    return tf.gradients([new_h, new_c], [x, h, c, w, b])


def gather(tf: ModuleType, rows: int, width: int, count: int):
    """Rows of an embedding."""
    return tf.gather(normal(tf, rows, width), numbers(tf, count, rows))


def scatter_add(tf: ModuleType, rows: int, width: int, count: int):
    """Rows added to those of an embedding."""
    table = normal(tf, rows, width)
    return tf.scatter_add(table, numbers(tf, count, rows), normal(tf, count, width, scale=1e-6)).op


def embedding_gradient(tf: ModuleType, rows: int, width: int, count: int):
    """Rows summed by their number: the dense gradient of an embedding."""
    return tf.unsorted_segment_sum(normal(tf, count, width), numbers(tf, count, rows), rows)


def optimizer(tf: ModuleType, name: str, size: int, **options):
    """An update of one variable."""
    variable = normal(tf, size)
    gradient = normal(tf, size, seed=1, scale=1e-3)
    made = getattr(tf.train, f"{name}Optimizer")(1e-3, **options)
    return made.apply_gradients([(tf.identity(gradient), variable)])


KINDS = {
    function.__name__: function
    for function in (
        matmul, batch_matmul, dense, conv, depthwise, conv_bias_relu, pool, lrn, batch_norm,
        softmax, cross_entropy, lstm, gather, scatter_add, embedding_gradient, optimizer,
    )
}
