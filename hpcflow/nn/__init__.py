"""``hpcflow.nn``: activations, losses, normalization, embeddings."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.nn.activations import (
    bias_add,
    crelu,
    dropout,
    elu,
    leaky_relu,
    log_softmax,
    relu,
    relu6,
    relu_layer,
    sigmoid,
    softmax,
    softplus,
    softsign,
    swish,
    tanh,
    xw_plus_b,
)
from hpcflow.nn.candidate_sampling import (
    all_candidate_sampler,
    compute_accidental_hits,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    nce_loss,
    sampled_softmax_loss,
    uniform_candidate_sampler,
)
from hpcflow.nn.convolution import (
    atrous_conv2d,
    atrous_conv2d_transpose,
    conv1d,
    conv1d_transpose,
    conv2d,
    conv2d_backprop_filter,
    conv2d_backprop_input,
    conv2d_transpose,
    conv3d,
    conv3d_backprop_filter_v2,
    conv3d_transpose,
    conv_transpose,
    convolution,
    depthwise_conv2d,
    depthwise_conv2d_native,
    depthwise_conv2d_native_backprop_filter,
    depthwise_conv2d_native_backprop_input,
    separable_conv2d,
)
from hpcflow.nn.ctc import (
    collapse_repeated,
    ctc_beam_search_decoder,
    ctc_greedy_decoder,
    ctc_loss,
    ctc_loss_v2,
    ctc_unique_labels,
)
from hpcflow.nn.embedding import embedding_lookup
from hpcflow.nn.fused_normalization import (
    fused_batch_norm,
    local_response_normalization,
    lrn,
)
from hpcflow.nn.losses import (
    l2_loss,
    log_poisson_loss,
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
    weighted_cross_entropy_with_logits,
)
from hpcflow.nn.measures import in_top_k, top_k, zero_fraction
from hpcflow.nn.morphology import dilation2d, erosion2d
from hpcflow.nn.normalization import (
    batch_norm_with_global_normalization,
    batch_normalization,
    l2_normalize,
    moments,
    normalize_moments,
    sufficient_statistics,
    weighted_moments,
)
from hpcflow.nn.pooling import (
    avg_pool,
    avg_pool1d,
    avg_pool3d,
    avg_pool_v2,
    fractional_avg_pool,
    fractional_max_pool,
    max_pool,
    max_pool1d,
    max_pool3d,
    max_pool_v2,
    max_pool_with_argmax,
    pool,
)
from hpcflow.nn.rnn import bidirectional_dynamic_rnn, dynamic_rnn, raw_rnn
from hpcflow.nn.space_to_batch import with_space_to_batch
from hpcflow.nn.sparse_embedding import embedding_lookup_sparse
from hpcflow.ops.quantized.quantized_nn import (
    quantized_avg_pool,
    quantized_conv2d,
    quantized_max_pool,
    quantized_relu_x,
)

__getattr__ = named_otherwise(__name__)
