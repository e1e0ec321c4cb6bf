"""``hpcflow.contrib.layers``: layers with ``weights`` and ``biases``, regularizers, training."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.layers.convolutional import (
    bias_add,
    conv1d,
    conv2d,
    conv2d_in_plane,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
    convolution,
    convolution1d,
    convolution2d,
    convolution2d_in_plane,
    convolution2d_transpose,
    convolution3d,
    convolution3d_transpose,
    separable_conv2d,
    separable_convolution2d,
)
from hpcflow.contrib.layers.crossing import SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY
from hpcflow.contrib.layers.divisive_normalization import GDN, gdn
from hpcflow.contrib.layers.embedding import (
    bow_encoder,
    embed_sequence,
    embedding_lookup_unique,
    safe_embedding_lookup_sparse,
)
from hpcflow.contrib.layers.fully_connected import (
    elu_layer as elu,
)
from hpcflow.contrib.layers.fully_connected import (
    fully_connected,
    legacy_fully_connected,
    legacy_linear,
    legacy_relu,
    linear,
)
from hpcflow.contrib.layers.fully_connected import (
    relu6_layer as relu6,
)
from hpcflow.contrib.layers.fully_connected import (
    relu_layer as relu,
)
from hpcflow.contrib.layers.group_normalization import group_norm, instance_norm
from hpcflow.contrib.layers.initializers import (
    variance_scaling_initializer,
    xavier_initializer,
    xavier_initializer_conv2d,
)
from hpcflow.contrib.layers.normalization import batch_norm, layer_norm, unit_norm
from hpcflow.contrib.layers.optimizing import (
    OPTIMIZER_CLS_NAMES,
    OPTIMIZER_SUMMARIES,
    optimize_loss,
)
from hpcflow.contrib.layers.pooling import avg_pool2d, avg_pool3d, max_pool2d, max_pool3d, pool
from hpcflow.contrib.layers.regularizers import (
    apply_regularization,
    l1_l2_regularizer,
    l1_regularizer,
    l2_regularizer,
    sum_regularizer,
)
from hpcflow.contrib.layers.reversible import RevBlock, recompute_grad, rev_block
from hpcflow.contrib.layers.sequences import (
    dense_to_sparse,
    images_to_sequence,
    sequence_to_images,
    spatial_softmax,
)
from hpcflow.contrib.layers.shaping import (
    dropout,
    flatten,
    maxout,
    one_hot_encoding,
    repeat,
    scale_gradient,
    softmax,
    stack,
)
from hpcflow.contrib.layers.summaries import (
    summarize_activation,
    summarize_activations,
    summarize_biases,
    summarize_collection,
    summarize_tensor,
    summarize_tensors,
    summarize_variables,
    summarize_weights,
)

__getattr__ = named_otherwise(__name__)
