"""Programs of layers and losses, whose variables are given values before they run."""

from __future__ import annotations

from typing import Any

import numpy as np

from scenarios import scenario


def _known_values(tf: Any, session: Any) -> None:
    """Let every variable have values that follow from its name and shape."""
    session.run(tf.global_variables_initializer())
    for v in sorted(tf.global_variables(), key=lambda v: v.name):
        if v.dtype.is_floating and v.shape.ndims:
            count = int(np.prod(v.shape.as_list()))
            values = 0.5 + 0.25 * np.sin(np.arange(count) + len(v.name))
            v.load(values.reshape(v.shape.as_list()).astype(v.dtype.as_numpy_dtype), session)


def _images(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def _sorted_names(tf: Any) -> list:
    return sorted(v.name for v in tf.global_variables())


@scenario
def convolution_layers(tf: Any, session: Any) -> list:
    x, rows, volume = _images(2, 6, 5, 4), _images(2, 9, 4), _images(1, 3, 4, 3, 2)
    layers = tf.layers
    ys = [layers.separable_conv1d(rows, 3, 3, 2, depth_multiplier=2),
          layers.separable_conv1d(rows, 3, 3, padding="same", dilation_rate=2),
          layers.separable_conv2d(x, 3, 3), layers.conv3d_transpose(volume, 2, 3, 2, "same"),
          layers.conv3d_transpose(volume, 2, 2, (1, 2, 1)), layers.conv2d_transpose(x, 3, 3, 2),
          tf.nn.conv_transpose(x, _images(3, 3, 5, 4), [2, 12, 10, 5], 2),
          tf.nn.conv1d(_images(2, 2, 5, 3), _images(2, 3, 2), 1, "SAME"),
          tf.nn.conv2d(_images(2, 2, 5, 4, 3), _images(2, 2, 3, 2), 1, "SAME"),
          tf.nn.conv1d(rows, _images(3, 2, 6), 1, "VALID"),
          tf.nn.conv2d(x, _images(3, 3, 2, 6), [1, 1, 1, 1], "SAME")]
    _known_values(tf, session)
    return [_sorted_names(tf), session.run(ys), [y.shape.as_list() for y in ys]]


def _normalizations(tf: Any, x: Any, training: Any, number: int) -> Any:
    options: list[dict] = [
        {"renorm": True, "renorm_momentum": 0.9},
        {"renorm": True, "renorm_clipping": {"rmax": 1.1, "rmin": 0.9, "dmax": 0.1}, "axis": 1},
        {"virtual_batch_size": 2}, {"axis": [1, 3]},
        {"adjustment": lambda s: (tf.fill([1, 1, 1, 4], 2.0), tf.ones([4]))},
        {"renorm": True, "virtual_batch_size": 3, "scale": False}]
    if "virtual_batch_size" in options[number]:
        training = True  # the reference forgets the virtual batches where this is a tensor
    return tf.layers.batch_normalization(x, training=training, momentum=0.7, **options[number])


def _normalization(number: int) -> Any:
    def program(tf: Any, session: Any) -> list:
        x, training = tf.placeholder(tf.float32, [6, 3, 2, 4]), tf.placeholder(tf.bool)
        y = _normalizations(tf, x, training, number)
        updates = tf.group(*tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        _known_values(tf, session)
        found: list = [_sorted_names(tf), [y.shape.as_list()]]
        for step, told in enumerate((True, True, False)):
            batch = _images(6, 3, 2, 4) * (step + 1)
            found.append(session.run([y, updates], {x: batch, training: told})[0])
        return [*found, [session.run(v) for v in sorted(tf.global_variables(),
                                                        key=lambda v: v.name)]]

    program.__name__ = f"normalization_{number}"
    return scenario(program)


for _number in range(6):
    _normalization(_number)


@scenario
def cross_entropies(tf: Any, session: Any) -> list:
    found = []
    for shape, axis in (((3, 4), -1), ((2, 3, 4), 1), ((2, 3), 0)):
        x = tf.constant(np.random.default_rng(3).normal(size=shape))
        y = tf.nn.softmax(tf.constant(np.random.default_rng(4).normal(size=shape)), axis=axis)
        loss = tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=x, axis=axis)
        found.append(session.run([loss, *tf.gradients(loss * loss, [x, y])]))
    return found


@scenario
def ctc_losses(tf: Any, session: Any) -> list:
    x = tf.constant(_images(6, 3, 5))
    labels = tf.constant([[1, 2, 2], [3, 1, 0], [1, 0, 0]])
    sparse = tf.SparseTensor([[0, 0], [0, 1], [1, 0], [2, 0]], [0, 1, 3, 1], [3, 2])
    lengths, times = tf.constant([3, 2, 1]), tf.constant([6, 5, 2])
    losses = [tf.nn.ctc_loss(labels=sparse, logits=x, sequence_length=times, inputs=None),
              tf.nn.ctc_loss_v2(labels, x, lengths, times),
              tf.nn.ctc_loss_v2(labels, tf.transpose(x, [1, 0, 2]), lengths, times, False,
                                tf.nn.ctc_unique_labels(labels), blank_index=-1),
              tf.nn.ctc_loss_v2(sparse, x, None, times, blank_index=2)]
    slopes = [tf.gradients(loss * [1.0, 2.0, 3.0], x)[0] for loss in losses]
    return [session.run([losses, slopes]), session.run(tf.nn.ctc_unique_labels(labels)),
            session.run(tf.nn.collapse_repeated(labels, lengths))]


@scenario
def profiles(tf: Any, session: Any) -> list:
    """Float operations and parameters, of the graph and of its parts."""
    x = tf.placeholder(tf.float32, [4, 8, 8, 3])
    with tf.variable_scope("net"):
        zeros = tf.zeros_initializer()
        y = tf.layers.conv2d(x, 5, 3, activation=tf.nn.relu, kernel_initializer=zeros)
        y = tf.layers.average_pooling2d(tf.layers.max_pooling2d(y, 2, 1), 2, 1)
        y = tf.layers.dense(tf.layers.flatten(y), 7, kernel_initializer=zeros)
    y = tf.nn.softmax(tf.add_n([y, y * 2.0, y ** 3.0]))
    loss = tf.reduce_mean(y) + tf.nn.l2_loss(y) + tf.reduce_sum(tf.rsqrt(y) - tf.log(-y))
    tf.matmul(tf.ones([2, 3, 4]), tf.ones([2, 5, 4]), transpose_b=True)
    tf.nn.depthwise_conv2d(x, tf.ones([3, 2, 3, 2]), [1, 2, 2, 1], "SAME")
    tf.nn.conv3d(tf.ones([1, 4, 4, 4, 2]), tf.ones([2, 2, 2, 2, 3]), [1] * 5, "SAME")
    tf.squared_difference(y, 1.0), tf.argmax(y, 1), tf.maximum(y, 0.0), tf.reciprocal(y)
    tf.gradients(loss, tf.trainable_variables())
    module = tf.profiler
    builder, graph = module.ProfileOptionBuilder, tf.get_default_graph()
    options = builder(builder.float_operation()).with_empty_output().build()
    ops = module.profile(graph, cmd="op", options=options)
    kinds = ("Conv2D", "MatMul", "BiasAdd", "MaxPool", "AvgPool", "AvgPoolGrad", "MaxPoolGrad",
             "Conv2DBackpropInput", "Conv2DBackpropFilter", "BiasAddGrad", "L2Loss", "Softmax",
             "DepthwiseConv2dNative", "Conv3D", "SquaredDifference", "ArgMax", "Rsqrt", "AddN",
             "Reciprocal", "Pow", "Log", "Maximum", "Mean")
    found = _named(ops)
    options = builder(builder.trainable_variables_parameter()).with_empty_output().build()
    variables = module.profile(graph, options=options)
    scopes = [(n.name, n.total_parameters) for n in _below(variables)]
    products = found.get("BatchMatMul", 0) + found.get("BatchMatMulV2", 0)
    return [[*(found.get(k, 0) for k in kinds), products], [list(map(str, s)) for s in scopes],
            variables.total_parameters]


def _below(node: Any) -> list:
    return [n for child in node.children for n in [child, *_below(child)]]


def _named(root: Any) -> dict:
    return {n.name: sum(g.float_ops for g in n.graph_nodes) for n in _below(root)}
