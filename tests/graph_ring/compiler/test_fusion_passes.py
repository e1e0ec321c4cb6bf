"""The passes that join layers and updates: which nodes they make, and which they leave alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import kernels
from hpcflow.compiler.fuse.fuse_gradients import fuse_gradients
from hpcflow.compiler.fuse.fuse_layers import fuse_layers
from hpcflow.compiler.fuse.fuse_updates import fuse_updates
from hpcflow.compiler.fuse.sum_convolutions import sum_convolutions
from hpcflow.compiler.ir import checks
from hpcflow.compiler.rewrite.dead_code import drop_unread
from hpcflow.compiler.rewrite.prune import prune

CPU, OTHER = "/job:a/replica:0/task:0/device:CPU:0", "/job:a/replica:0/task:0/device:ODD:0"


@pytest.fixture(autouse=True)
def graph():
    kernels.load()
    with hf.Graph().as_default() as graph:
        yield graph


def fused_nodes(*fetches, device=CPU):
    """The step's nodes after the passes, without gradients that nobody reads."""
    step = prune(list(fetches), [], device)
    for node in step.nodes:
        node.device = device
    drop_unread(step)
    fuse_layers(step)
    fuse_gradients(step)
    sum_convolutions(step)
    fuse_updates(step)
    checks.check(step, "fuse")
    return step.nodes


def fused(*fetches, device=CPU):
    """The types of the step's nodes."""
    return [n.type for n in fused_nodes(*fetches, device=device)]


def layer(relu=True, dtype=hf.float32):
    x = hf.placeholder(dtype, [2, 8, 8, 3])
    w, b = hf.Variable(hf.ones([3, 3, 3, 4], dtype)), hf.Variable(hf.ones([4], dtype))
    conv = hf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME")
    biased = hf.nn.bias_add(conv, b)
    return conv, biased, hf.nn.relu(biased) if relu else biased


def test_a_layer_is_one_node():
    *_, y = layer()
    types = fused(y)
    assert "_ConvBias" in types and not {"Conv2D", "BiasAdd", "Relu"} & set(types)


@pytest.mark.parametrize("flip", [False, True])
def test_an_added_vector_is_a_bias(flip):
    x = hf.placeholder(hf.float32, [None, 8, 8, 3])
    w, b = hf.Variable(hf.ones([3, 3, 3, 4])), hf.Variable(hf.ones([4]))
    conv = hf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME")
    types = fused(hf.nn.relu(b + conv if flip else conv + b))
    assert "_ConvBias" in types and not {"Conv2D", "Add", "Relu"} & set(types)


def test_other_additions_to_layers_stay():
    x = hf.placeholder(hf.float32, [2, 4, 4, 3])
    w = hf.Variable(hf.ones([3, 3, 3, 4]))
    for layout, other in (("NCHW", [4]), ("NHWC", [1]), ("NHWC", [4, 4]), ("NHWC", [2, 4, 4, 4])):
        image = hf.transpose(x, [0, 3, 1, 2]) if layout == "NCHW" else x
        conv = hf.nn.conv2d(image, w, [1, 1, 1, 1], "SAME", data_format=layout)
        assert {"Conv2D", "Add"} <= set(fused(conv + hf.Variable(hf.ones(other))))


def test_without_relu():
    assert fused(layer(relu=False)[-1]).count("_ConvBias") == 1


@pytest.mark.parametrize(("part", "left"), [(0, {"Conv2D", "BiasAdd", "Relu"}), (1, {"Relu"})])
def test_what_is_fetched_stays(part, left):
    parts = layer()
    types = set(fused(parts[-1], parts[part]))
    assert types & {"Conv2D", "BiasAdd", "Relu"} == left
    assert ("_ConvBias" in types) == (part == 1)


def test_what_is_waited_for_stays(graph):
    conv, _, y = layer()
    with graph.control_dependencies([conv]):
        later = hf.identity(y)
    assert "Conv2D" in fused(later)


def test_other_types_and_devices_stay():
    assert "_ConvBias" not in fused(layer(dtype=hf.float64)[-1])
    assert "_ConvBias" not in fused(layer()[-1], device=OTHER)


def dense(rows=64, columns=512, relu=True, dtype=hf.float32):
    x, b = hf.placeholder(dtype, [rows, 784]), hf.Variable(hf.ones([columns], dtype))
    product = hf.matmul(x, hf.Variable(hf.ones([784, columns], dtype)))
    biased = hf.nn.bias_add(product, b)
    return product, biased, hf.nn.relu(biased) if relu else biased


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("rows", [None, 64])
def test_a_dense_layer_is_one_node(rows, relu):
    types = fused(dense(rows, relu=relu)[-1])
    assert types.count("_MatMulBias") == 1 and not {"MatMul", "BiasAdd", "Relu"} & set(types)


def test_dense_layers_that_stay():
    """Small ones, those of other types, and what is fetched."""
    for outputs in (dense(2)[-1:], dense(None, 8)[-1:], dense(dtype=hf.float64)[-1:], dense()[::2]):
        assert "_MatMulBias" not in fused(*outputs)


def of_sequences(kind, relu=True, add=hf.nn.bias_add, batch=None):
    """A layer of [batch, 20, 128] whose bias comes after a view of the result."""
    x, b = hf.placeholder(hf.float32, [batch, 20, 128]), hf.Variable(hf.ones([512]))
    if kind == "conv1d":
        y = hf.nn.conv1d(x, hf.Variable(hf.ones([1, 128, 512])), 1, "SAME")
    else:
        y = hf.tensordot(x, hf.Variable(hf.ones([128, 512])), [[2], [0]])
    biased = add(y, b)
    return x, y, biased, hf.nn.relu(biased) if relu else biased


@pytest.mark.parametrize("add", [hf.nn.bias_add, lambda y, b: b + y], ids=["bias_add", "plus"])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("batch", [None, 16])
@pytest.mark.parametrize(("kind", "layer"), [("conv1d", "_ConvBias"), ("dense", "_MatMulBias")])
def test_a_view_comes_after_the_layer(kind, layer, batch, relu, add):
    """Also where gradients ask for the shape of what is viewed."""
    x, *_, y = of_sequences(kind, relu, add, batch)
    for fetches in ([y], [y, *hf.gradients(hf.reduce_sum(y * y), x)]):
        nodes = fused_nodes(*fetches)
        types = [n.type for n in nodes]
        assert types.count(layer) == 1
        assert types.count("MatMul") == (kind == "dense" and len(fetches) > 1)  # the gradient's
        assert not {"Conv2D", "BiasAdd", "Relu", "Add", "AddV2"} & set(types)
        view = nodes[types.index(layer) + 1 :]
        assert any(n.inputs and n.inputs[0][0].type == layer and n.dims[0] == (batch, 20, 512)
                   for n in view)


@pytest.mark.parametrize("kind", ["conv1d", "dense"])
def test_a_view_that_is_read_stays_before_the_bias(kind):
    _, y, _, out = of_sequences(kind)
    types = fused(out, y)
    assert not {"_ConvBias", "_MatMulBias"} & set(types) and "BiasAdd" in types


def test_a_view_of_other_channels_stays_before_the_bias():
    product = hf.matmul(hf.placeholder(hf.float32, [64, 784]), hf.Variable(hf.ones([784, 512])))
    y = hf.nn.bias_add(hf.reshape(product, [64, 2, 256]), hf.Variable(hf.ones([256])))
    types = fused(y)
    assert "_MatMulBias" not in types and "BiasAdd" in types


def test_dense_layers_in_loops_stay():
    w, b = hf.ones([256, 256]), hf.ones([256])
    _, y = hf.while_loop(lambda i, _: i < 3,
                         lambda i, x: (i + 1, hf.nn.relu(hf.nn.bias_add(hf.matmul(x, w), b))),
                         [0, hf.ones([256, 256])])
    outside = hf.nn.bias_add(hf.matmul(y, w), b)
    types = fused(outside)
    assert types.count("_MatMulBias") == 1 and types.count("MatMul") == 1


def pooled(ksize=3, padding="VALID"):
    x = hf.placeholder(hf.float32, [2, 8, 8, 3])
    y = hf.nn.max_pool(x, [1, ksize, ksize, 1], [1, 2, 2, 1], padding)
    return x, y, hf.gradients(y * y, [x])[0]


def test_a_pooling_and_its_gradient_share_places():
    _, y, gradient = pooled()
    types = fused(y, gradient)
    assert {"_MaxPool", "_MaxPoolGrad"} <= set(types)
    assert not {"MaxPool", "MaxPoolGrad"} & set(types)


def test_a_pooling_alone_stays():
    assert "MaxPool" in fused(pooled()[1])


def test_a_gradient_of_another_pooling_stays():
    x, y, _ = pooled(padding="SAME")
    other = hf.raw_ops.MaxPoolGrad(x, y, y, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1],
                                   padding="SAME")
    assert {"MaxPool", "MaxPoolGrad"} <= set(fused(other))


def trained(layout="NHWC", size=40, strides=2, ksize=3):
    """The gradients by filter and bias of a layer with a pooling, of an image of `size`."""
    dims = [2, size, size, 4] if layout == "NHWC" else [2, 4, size, size]
    x = hf.placeholder(hf.float32, dims)
    w, b = hf.Variable(hf.ones([1, 1, 4, 8])), hf.Variable(hf.ones([8]))

    def of_places(n):
        return [1, n, n, 1] if layout == "NHWC" else [1, 1, n, n]

    y = hf.nn.conv2d(x, w, of_places(1), "SAME", data_format=layout)
    y = hf.nn.relu(hf.nn.bias_add(y, b, data_format=layout))
    p = hf.nn.max_pool(y, of_places(ksize), of_places(strides), "SAME", layout)
    return y, hf.gradients(p * p, [w, b])


def test_the_gradients_of_relu_and_bias_are_one_pass():
    y, _ = trained(size=64)
    nodes = fused_nodes(*hf.gradients(y * y, hf.trainable_variables()))
    types = [n.type for n in nodes]
    assert types.count("_ReluBiasGrad") == 1 and not {"ReluGrad", "BiasAddGrad"} & set(types)
    joint = next(n for n in nodes if n.type == "_ReluBiasGrad")
    assert joint.dims == [(2, 64, 64, 8), (8,)]


def test_the_gradient_of_an_added_vector_is_that_of_a_bias():
    x = hf.placeholder(hf.float32, [None, 32, 32, 3])
    w, b = hf.Variable(hf.ones([3, 3, 3, 16])), hf.Variable(hf.ones([16]))
    y = hf.nn.relu(hf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME") + b)
    types = fused(*hf.gradients(y, [w, b]))
    assert "_ReluBiasGrad" in types and not {"ReluGrad", "Sum"} & set(types)


def test_gradients_of_small_layers_and_of_channels_first_stay():
    for layout, size in (("NHWC", 8), ("NCHW", 64)):
        y, _ = trained(layout, size)
        types = fused(*hf.gradients(y * y, hf.trainable_variables()[-2:]))
        assert {"ReluGrad", "BiasAddGrad"} <= set(types)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_relu_masks_before_the_gradient_of_the_pooling(layout):
    _, gradients = trained(layout)
    by_type = {n.type: n for n in fused_nodes(*gradients)}
    mask, pooling = by_type["ReluGrad"], by_type["_MaxPoolGrad"]
    pool = by_type["_MaxPool"]
    assert mask.inputs[1] == (pool, 0) and pooling.inputs[2] == (mask, 0)
    assert mask.dims == pool.dims[:1] and by_type["BiasAddGrad"].inputs == [(mask, 0)]
    assert mask.name.endswith("ReluGrad") and pooling.name.endswith("MaxPoolGrad")


def test_masks_that_stay_after_the_gradient_of_the_pooling():
    """Of one that makes nothing smaller, and of one whose gradient others read."""
    _, gradients = trained(strides=1)
    y, _ = trained()
    pooled = hf.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    for wanted in (gradients, hf.gradients(pooled, [y, hf.trainable_variables()[-1]])):
        mask = next(n for n in fused_nodes(*wanted) if "Relu" in n.type)
        assert mask.type in ("ReluGrad", "_ReluBiasGrad")
        assert mask.inputs[0][0].type == "_MaxPoolGrad"


def test_the_gradient_of_a_response_is_recognized():
    x = hf.placeholder(hf.float32, [2, 4, 4, 16])
    y = hf.nn.lrn(x, 2, beta=0.75)
    assert "_LRNGrad" in fused(hf.gradients(y * y, [x])[0])


def test_the_gradient_of_another_response_stays():
    """Also of one with other numbers."""
    x = hf.placeholder(hf.float32, [2, 4, 4, 16])
    y, options = hf.nn.lrn(x, 2, beta=0.75), {"bias": 1.0, "alpha": 1.0, "beta": 0.75}
    for inputs, radius in [((x, x, x * 2), 2), ((x, x, y), 1), ((x, x * 2, y), 2)]:
        other = hf.raw_ops.LRNGrad(*inputs, depth_radius=radius, **options)
        assert "LRNGrad" in fused(other)


def descent(rows=400, columns=300, more=None):
    x = hf.constant(np.ones((8, rows), np.float32))
    w = hf.Variable(hf.ones([rows, columns]))
    y = hf.matmul(x, w)
    optimizer = hf.train.GradientDescentOptimizer(0.1)
    pairs = optimizer.compute_gradients(hf.reduce_sum(y * y), [w])
    train = optimizer.apply_gradients(pairs)
    return [train] + ([pairs[0][0]] if more else [])


def test_a_product_goes_into_the_update():
    types = fused(*descent())
    assert "_MatMulGradientDescent" in types and "ApplyGradientDescent" not in types
    assert types.count("MatMul") == 1  # the forward one


def test_small_products_stay():
    assert "_MatMulGradientDescent" not in fused(*descent(30, 20))


def test_a_fetched_gradient_stays():
    assert "_MatMulGradientDescent" not in fused(*descent(more=True))


def test_what_waited_for_the_gradient_waits_for_its_factors(graph):
    w = hf.Variable(hf.ones([400, 300]))
    a, b = (hf.placeholder(hf.float32, dims, name) for dims, name in
            (([400, 8], "a"), ([8, 300], "b")))
    gradient = hf.matmul(hf.tanh(a), b)
    with graph.control_dependencies([gradient]):
        after = hf.no_op("after")
    train = hf.train.GradientDescentOptimizer(0.1).apply_gradients([(gradient, w)])
    step = prune([train, after], [], CPU)
    for node in step.nodes:
        node.device = CPU
    fuse_updates(step)
    checks.check(step, "fuse")
    waiting = next(n for n in step.nodes if n.name == "after")
    assert "Tanh" in [c.type for c in waiting.controls]


def branches(depths=(8, 4, 6), window=1, stride=1, pooled=True, more=False):
    """An image that convolutions and a pooling read, and the gradient by it."""
    x = hf.placeholder(hf.float32, [2, 8, 8, 5])
    strides = [1, stride, stride, 1]
    ends = [hf.nn.conv2d(x, hf.Variable(hf.ones([window, window, 5, n])), strides, "SAME")
            for n in depths]
    if pooled:
        ends.insert(1, hf.nn.max_pool(x, [1, 3, 3, 1], strides, "SAME"))
    if more:
        ends.append(hf.square(x))
    return x, hf.gradients(hf.square(hf.concat(ends, 3)), [x])[0]


@pytest.mark.parametrize(("depths", "pooled", "more"), [
    ((8, 4, 6), True, False), ((3,), True, True), ((8, 4), False, False)])
def test_gradients_of_pointwise_convolutions_are_added_on(depths, pooled, more):
    _, gradient = branches(depths, pooled=pooled, more=more)
    nodes = fused_nodes(gradient)
    types = [n.type for n in nodes]
    first = not (pooled or more)  # then one of them is what the others are added to
    assert types.count("_Conv2DBackpropInputSum") == len(depths) - first
    assert types.count("Conv2DBackpropInput") == first
    assert types.count("AddN") == (pooled and more)
    added = [n for n in nodes if n.type == "_Conv2DBackpropInputSum"]
    for before, after in itertools.pairwise(added):
        assert after.inputs[0] == (before, 0)


@pytest.mark.parametrize(("window", "stride"), [(3, 1), (1, 2)])
def test_other_gradients_of_convolutions_stay(window, stride):
    _, gradient = branches(window=window, stride=stride)
    assert "_Conv2DBackpropInputSum" not in fused(gradient)


def test_a_gradient_of_a_convolution_that_others_read_stays(graph):
    _, gradient = branches((3, 4), pooled=False)
    parts = list(gradient.op.inputs)
    types = fused(gradient, parts[0])
    assert types.count("_Conv2DBackpropInputSum") == types.count("Conv2DBackpropInput") == 1
    assert "_Conv2DBackpropInputSum" not in fused(gradient, *parts)


@pytest.mark.parametrize(("order", "is_kept"), [([0, 2, 1, 3], True), ([0, 1, 3, 2], False)])
@pytest.mark.parametrize("others", [False, True])
def test_products_lie_as_they_are_read(order, is_kept, others):
    """Where a transposition that leaves rows whole is all that reads them."""
    a, b = hf.placeholder(hf.float32, [2, 3, 8, 8]), hf.placeholder(hf.float32, [2, 3, 8, 8])
    y = hf.matmul(a, b)
    fetches = [hf.transpose(y, order), *([hf.exp(y)] if others else [])]
    (product,) = [n for n in fused_nodes(*fetches) if n.type.startswith("BatchMatMul")]
    assert product.attrs.get("_order") == (order if is_kept and not others else None)


def test_products_that_are_fetched_lie_in_order():
    y = hf.matmul(hf.placeholder(hf.float32, [2, 3, 8, 8]), hf.ones([2, 3, 8, 8]))
    (product,) = [n for n in fused_nodes(hf.transpose(y, [0, 2, 1, 3]), y)
                  if n.type.startswith("BatchMatMul")]
    assert "_order" not in product.attrs
