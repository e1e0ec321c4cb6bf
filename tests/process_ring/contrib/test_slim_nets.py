"""Networks of slim: variables, end points and losses, as TensorFlow 1.15 makes them."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import slim
from hpcflow.contrib.slim.nets import alexnet, inception, overfeat, resnet_v1, resnet_v2, vgg

V3 = inception.inception_v3_arg_scope
# The network, the arguments of its layers, the side of the images, more arguments; then how many
# variables, trained numbers, end points, regularization losses and update ops there are, and a hash
# of the names of all variables in order.
NETS = [
    (alexnet.alexnet_v2, alexnet.alexnet_v2_arg_scope, 224, {"num_classes": 10},
     (16, 46247882, 11, 8, 0), "2934e2af"),
    (vgg.vgg_a, vgg.vgg_arg_scope, 224, {"num_classes": 10}, (22, 128807306, 16, 11, 0),
     "79c1bb71"),
    (vgg.vgg_16, vgg.vgg_arg_scope, 224, {"num_classes": 10}, (32, 134301514, 21, 16, 0),
     "21bf6792"),
    (vgg.vgg_19, vgg.vgg_arg_scope, 224, {"num_classes": 10}, (38, 139611210, 24, 19, 0),
     "56886f50"),
    (overfeat.overfeat, overfeat.overfeat_arg_scope, 231,
     {"num_classes": 10, "spatial_squeeze": False}, (16, 141648394, 11, 8, 0), "5d83d1c5"),
    (inception.inception_v1, inception.inception_v1_arg_scope, 224, {"num_classes": 10},
     (230, 5602874, 18, 58, 114), "ef167431"),
    (inception.inception_v2, inception.inception_v2_arg_scope, 128,
     {"num_classes": 10, "depth_multiplier": 0.5}, (277, 2547218, 17, 69, 136), "d1614e8c"),
    (inception.inception_v3, V3, 299, {"num_classes": 10}, (388, 24353332, 22, 98, 192),
     "c9535416"),
    (inception.inception_v3, V3, 150,
     {"num_classes": 10, "depth_multiplier": 0.25, "spatial_squeeze": False},
     (388, 1393048, 22, 98, 192), "bf4cff6d"),
    (resnet_v1.resnet_v1_50, resnet_v1.resnet_arg_scope, 97,
     {"num_classes": 10, "output_stride": 8, "global_pool": False},
     (267, 23528522, 75, 54, 106), "c34fd147"),
    (resnet_v2.resnet_v2_50, resnet_v2.resnet_arg_scope, 97,
     {"num_classes": 10, "output_stride": 8, "global_pool": False},
     (272, 23539850, 75, 54, 98), "4892d0d4"),
    (resnet_v2.resnet_v2_101, resnet_v2.resnet_arg_scope, 64, {"is_training": False},
     (542, 42528896, 141, 104, 0), "257d36cd"),
]


@pytest.mark.parametrize("network, layers, side, arguments, counts, names", NETS,
                         ids=[f"{net[0].__name__}-{net[2]}" for net in NETS])
def test_a_network_has_what_published_checkpoints_have(network, layers, side, arguments, counts,
                                                       names):
    with hf.Graph().as_default():
        with slim.arg_scope(layers()):
            _, end_points = network(hf.placeholder(hf.float32, [2, side, side, 3]), **arguments)
        variables = hf.global_variables()
        trained = sum(int(np.prod(v.shape.as_list())) for v in hf.trainable_variables())
        collected = [len(hf.get_collection(key)) for key in (hf.GraphKeys.REGULARIZATION_LOSSES,
                                                             hf.GraphKeys.UPDATE_OPS)]
    assert (len(variables), trained, len(end_points), *collected) == counts
    text = "\n".join(v.op.name for v in variables)
    assert hashlib.md5(text.encode()).hexdigest()[:8] == names


def test_they_learn_and_give_features(session):
    images = hf.constant(np.cos(np.arange(2 * 64 * 64 * 3)).reshape(2, 64, 64, 3), hf.float32)
    with slim.arg_scope(resnet_v2.resnet_arg_scope()):
        blocks = [resnet_v2.resnet_v2_block("block1", 4, 2, 2)]
        logits, _ = resnet_v2.resnet_v2(images, blocks, 3, scope="small")
    with slim.arg_scope(V3()):
        features, points = inception.inception_v3_base(images, "Mixed_5b", 4, 0.05)
    assert list(points)[-1] == "Mixed_5b" and features.shape.as_list() == [2, 5, 5, 16]
    loss = hf.losses.sparse_softmax_cross_entropy([0, 2], hf.squeeze(logits, [1, 2]))
    step = slim.learning.create_train_op(loss, hf.train.GradientDescentOptimizer(0.1))
    session.run(hf.global_variables_initializer())
    losses = [session.run(step) for _ in range(6)]
    assert losses[-1] < losses[0] and np.isfinite(session.run(features)).all()


def test_refusals():
    images = hf.zeros([1, 64, 64, 3])
    with pytest.raises(ValueError, match="Unknown final endpoint Mixed_9z"):
        inception.inception_v1_base(images, "Mixed_9z")
    with pytest.raises(ValueError, match="depth_multiplier"):
        inception.inception_v2(images, depth_multiplier=0)
    for stride, match in ((6, "multiple of 4"), (64, "cannot be reached")):
        with hf.Graph().as_default(), pytest.raises(ValueError, match=match):
            resnet_v1.resnet_v1_50(hf.zeros([1, 64, 64, 3]), output_stride=stride)


def test_paths_of_programs():
    from hpcflow.contrib.slim.python.slim.nets import resnet_v1 as by_path
    assert by_path.resnet_v1_50 is slim.nets.resnet_v1.resnet_v1_50
    assert slim.nets.vgg.vgg_16.default_image_size == 224
    assert hf.contrib.graph_editor.SubGraphView
