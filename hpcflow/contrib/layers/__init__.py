"""``hpcflow.contrib.layers``: initializers, regularizers and the fully connected layer."""

from hpcflow.contrib.layers.fully_connected import fully_connected
from hpcflow.contrib.layers.initializers import (
    variance_scaling_initializer,
    xavier_initializer,
    xavier_initializer_conv2d,
)
from hpcflow.contrib.layers.regularizers import l1_l2_regularizer, l1_regularizer, l2_regularizer
from hpcflow.other_names import named_otherwise

__getattr__ = named_otherwise("hpcflow.contrib.layers")
