"""``hpcflow.layers``: layers of networks that make their own variables."""

from hpcflow.layers.convolutional import (
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    separable_conv2d,
)
from hpcflow.layers.dense import dense
from hpcflow.layers.dropout import dropout
from hpcflow.layers.flattening import flatten
from hpcflow.layers.normalization import batch_normalization
from hpcflow.layers.pooling import (
    average_pooling1d,
    average_pooling2d,
    average_pooling3d,
    max_pooling1d,
    max_pooling2d,
    max_pooling3d,
)
