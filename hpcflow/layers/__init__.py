"""``hpcflow.layers``: layers of networks that make their own variables."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.layers.base import Layer
from hpcflow.layers.classes import (
    AveragePooling1D,
    AveragePooling2D,
    AveragePooling3D,
    BatchNormalization,
    Conv1D,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
    Dense,
    Dropout,
    Flatten,
    MaxPooling1D,
    MaxPooling2D,
    MaxPooling3D,
    SeparableConv1D,
    SeparableConv2D,
)
from hpcflow.layers.convolutional import (
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
    separable_conv1d,
    separable_conv2d,
)
from hpcflow.layers.dense import dense
from hpcflow.layers.dropout import dropout
from hpcflow.layers.flattening import flatten
from hpcflow.layers.input_spec import InputSpec
from hpcflow.layers.normalization import batch_normalization
from hpcflow.layers.pooling import (
    average_pooling1d,
    average_pooling2d,
    average_pooling3d,
    max_pooling1d,
    max_pooling2d,
    max_pooling3d,
)

__getattr__ = named_otherwise(__name__)
