"""``keras.layers``: the layers of models."""

from __future__ import annotations

from typing import Any

from hpcflow.base.late_names import named_otherwise
from hpcflow.keras import lookup
from hpcflow.keras.engine import layer as engine_layer
from hpcflow.keras.engine.inputs import Input, InputLayer
from hpcflow.keras.engine.layer import Layer
from hpcflow.keras.engine.op_layers import TensorFlowOpLayer as _TensorFlowOpLayer
from hpcflow.keras.engine.sequential import Sequential as _Sequential
from hpcflow.keras.engine.training import Model as _Model
from hpcflow.keras.layers.advanced_activations import (
    ELU,
    LeakyReLU,
    PReLU,
    ReLU,
    Softmax,
    ThresholdedReLU,
)
from hpcflow.keras.layers.attention import AdditiveAttention, Attention
from hpcflow.keras.layers.basic import (
    Activation,
    ActivityRegularization,
    BatchNormalization,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    Masking,
    Permute,
    RepeatVector,
    Reshape,
)
from hpcflow.keras.layers.convolutional import (
    AveragePooling1D,
    AveragePooling2D,
    AveragePooling3D,
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    Conv1D,
    Conv2D,
    Conv3D,
    Convolution1D,
    Convolution2D,
    Convolution3D,
    Cropping1D,
    Cropping2D,
    Cropping3D,
    DepthwiseConv2D,
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalAveragePooling3D,
    GlobalAvgPool1D,
    GlobalAvgPool2D,
    GlobalAvgPool3D,
    GlobalMaxPool1D,
    GlobalMaxPool2D,
    GlobalMaxPool3D,
    GlobalMaxPooling1D,
    GlobalMaxPooling2D,
    GlobalMaxPooling3D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
    MaxPooling1D,
    MaxPooling2D,
    MaxPooling3D,
    SeparableConv1D,
    SeparableConv2D,
    SeparableConvolution1D,
    SeparableConvolution2D,
    UpSampling1D,
    UpSampling2D,
    UpSampling3D,
    ZeroPadding1D,
    ZeroPadding2D,
    ZeroPadding3D,
)
from hpcflow.keras.layers.convolutional_recurrent import ConvLSTM2D
from hpcflow.keras.layers.cudnn import CuDNNGRU, CuDNNLSTM
from hpcflow.keras.layers.features import DenseFeatures
from hpcflow.keras.layers.lambda_layer import Lambda
from hpcflow.keras.layers.local import LocallyConnected1D, LocallyConnected2D
from hpcflow.keras.layers.merging import (
    Add,
    Average,
    Concatenate,
    Dot,
    Maximum,
    Minimum,
    Multiply,
    Subtract,
    add,
    average,
    concatenate,
    dot,
    maximum,
    minimum,
    multiply,
    subtract,
)
from hpcflow.keras.layers.noise import (
    AlphaDropout,
    GaussianDropout,
    GaussianNoise,
    SpatialDropout1D,
    SpatialDropout2D,
    SpatialDropout3D,
)
from hpcflow.keras.layers.normalization import LayerNormalization
from hpcflow.keras.layers.recurrent import GRU, LSTM, RNN, SimpleRNN
from hpcflow.keras.layers.recurrent_cells import (
    AbstractRNNCell,
    GRUCell,
    LSTMCell,
    SimpleRNNCell,
    StackedRNNCells,
)
from hpcflow.keras.layers.transposed import (
    Conv2DTranspose,
    Conv3DTranspose,
    Convolution2DTranspose,
    Convolution3DTranspose,
)
from hpcflow.keras.layers.wrappers import Bidirectional, TimeDistributed, Wrapper
from hpcflow.layers.input_spec import InputSpec


@engine_layer.deserialize.provide
def deserialize(config: dict, custom_objects: dict | None = None) -> Any:
    """Return a layer of its class's name and its configuration. ``ValueError`` for other names."""
    table = {n: v for n, v in globals().items() if isinstance(v, type)}
    table.update(Sequential=_Sequential, Model=_Model, TensorFlowOpLayer=_TensorFlowOpLayer)
    with lookup.custom_object_scope(custom_objects or {}):
        return lookup.named(table, config["class_name"], "layer").from_config(config["config"])


serialize = lookup.serialized


__getattr__ = named_otherwise(__name__)
