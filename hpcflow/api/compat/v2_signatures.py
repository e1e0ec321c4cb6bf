"""Functions that take their arguments in another order, or by other names, in the v2 interface."""

from __future__ import annotations

_ASSERT = "x y message summarize name"
_REDUCE = "input_tensor axis keepdims name"
_CONV = "input filters strides padding data_format dilations name"
_TURNED = "input=value filters=filter output_shape strides padding data_format dilations name"
_POOL = "input ksize strides padding data_format name"
_SEGMENT = "data indices segment_ids num_segments name"
_DECODE = "contents channels dtype name expand_animations"
_SAMPLED = ("weights biases labels inputs num_sampled num_classes num_true sampled_values "
            "remove_accidental_hits seed name")

# By the path below the package: the arguments in order; ``new=old`` where the names differ.
_AT_ROOT = {
    "argmax": "input axis output_type name",
    "argmin": "input axis output_type name",
    "assert_equal": _ASSERT, "assert_greater": _ASSERT, "assert_less": _ASSERT,
    "assert_rank": "x rank message name",
    "boolean_mask": "tensor mask axis name",
    "case": "pred_fn_pairs default exclusive strict name",
    "cond": "pred true_fn false_fn name",
    "constant": "value dtype shape name",
    "convert_to_tensor": "value dtype dtype_hint=preferred_dtype name",
    "device": "device_name=device_name_or_function",
    "expand_dims": "input axis name",
    "gather": "params indices validate_indices axis batch_dims name",
    "gather_nd": "params indices batch_dims name",
    "gradients": ("ys xs grad_ys name gate_gradients aggregation_method stop_gradients "
                  "unconnected_gradients"),
    "hessians": "ys xs gate_gradients aggregation_method name",
    "norm": "tensor ord axis keepdims name",
    "ones_like": "input=tensor dtype name",
    "pad": "tensor paddings mode constant_values name",
    **{f"reduce_{kind}": _REDUCE for kind in (
        "all", "any", "logsumexp", "max", "mean", "min", "prod", "sum")},
    "reverse_sequence": "input seq_lengths seq_axis batch_axis name",
    "scan": ("fn elems initializer parallel_iterations back_prop swap_memory infer_shape reverse "
             "name"),
    "shape": "input out_type name",
    "size": "input out_type name",
    "squeeze": "input axis name",
    "transpose": "a perm conjugate name",
    "tuple": "tensors control_inputs name",
    "while_loop": ("cond body loop_vars shape_invariants parallel_iterations back_prop "
                   "swap_memory maximum_iterations name"),
    "zeros_like": "input=tensor dtype name",
}
_BELOW = {
    "debugging": {
        **{f"assert_{kind}": _ASSERT for kind in (
            "equal", "greater", "greater_equal", "less", "less_equal")},
        "assert_all_finite": "x=t message=msg name",
        "assert_near": "x y rtol atol message summarize name",
        "assert_none_equal": "x y summarize message name",
        **{f"assert_{kind}": "x message summarize name" for kind in (
            "negative", "non_negative", "non_positive", "positive")},
        "assert_rank": "x rank message name",
        "assert_rank_at_least": "x rank message name",
        "assert_rank_in": "x ranks message name",
        "assert_scalar": "tensor message name",
    },
    "feature_column": {
        "categorical_column_with_vocabulary_file": (
            "key vocabulary_file vocabulary_size dtype default_value num_oov_buckets"),
    },
    "image": {
        "crop_and_resize": (
            "image boxes box_indices=box_ind crop_size method extrapolation_value name"),
        "decode_image": _DECODE,
        "draw_bounding_boxes": "images boxes colors name",
        "extract_glimpse": "input size offsets centered normalized noise name",
        "non_max_suppression": (
            "boxes scores max_output_size iou_threshold score_threshold name"),
        "sample_distorted_bounding_box": (
            "image_size bounding_boxes seed min_object_covered aspect_ratio_range area_range "
            "max_attempts use_image_if_no_bounding_boxes name"),
    },
    "io": {
        "decode_image": _DECODE,
        "decode_raw": "input_bytes=bytes out_type little_endian name",
        "serialize_many_sparse": "sp_input out_type name",
        "serialize_sparse": "sp_input out_type name",
        "decode_csv": ("records record_defaults field_delim use_quote_delim na_value select_cols "
                       "name"),
        "parse_example": "serialized features example_names name",
        "parse_single_example": "serialized features example_names name",
    },
    "linalg": {"norm": "tensor ord axis keepdims name", "l2_normalize": "x axis epsilon name"},
    "math": {
        "argmax": "input axis output_type name",
        "argmin": "input axis output_type name",
        "bincount": "arr weights minlength maxlength dtype",
        "confusion_matrix": "labels predictions num_classes weights dtype name",
        "count_nonzero": "input=input_tensor axis keepdims dtype name",
        "in_top_k": "targets predictions k name",
        "l2_normalize": "x axis epsilon name",
        "log_softmax": "logits axis name",
        "softmax": "logits axis name",
        **{f"reduce_{kind}": _REDUCE for kind in (
            "all", "any", "logsumexp", "max", "mean", "min", "prod", "sum")},
    },
    "nn": {
        "avg_pool2d": _POOL.replace("input", "input=value"),
        "batch_norm_with_global_normalization": (
            "input=t mean=m variance=v beta gamma variance_epsilon scale_after_normalization name"),
        "conv1d": "input=value filters stride padding data_format dilations name",
        "conv2d": _CONV.replace("filters", "filters=filter"),
        "conv2d_transpose": _TURNED,
        "conv3d": _CONV.replace("filters", "filters=filter"),
        "conv3d_transpose": _TURNED,
        "convolution": ("input filters=filter strides padding data_format dilations=dilation_rate "
                        "name"),
        "crelu": "features axis name",
        "depth_to_space": "input block_size data_format name",
        "depthwise_conv2d": "input filter strides padding data_format dilations=rate name",
        "depthwise_conv2d_backprop_filter": (
            "input filter_sizes out_backprop strides padding data_format dilations name"),
        "depthwise_conv2d_backprop_input": (
            "input_sizes filter out_backprop strides padding data_format dilations name"),
        "dropout": "x rate noise_shape seed name",
        "embedding_lookup": "params ids max_norm name",
        "embedding_lookup_sparse": "params sp_ids sp_weights combiner max_norm name",
        "in_top_k": "targets predictions k name",
        "l2_normalize": "x axis epsilon name",
        "log_softmax": "logits axis name",
        "max_pool2d": _POOL.replace("input", "input=value"),
        "moments": "x axes shift keepdims=keep_dims name",
        "nce_loss": _SAMPLED.replace(" seed", ""),
        "pool": ("input window_shape pooling_type strides padding data_format "
                 "dilations=dilation_rate name"),
        "safe_embedding_lookup_sparse": (
            "embedding_weights sparse_ids sparse_weights combiner default_id max_norm name"),
        "sampled_softmax_loss": _SAMPLED,
        "separable_conv2d": ("input depthwise_filter pointwise_filter strides padding data_format "
                             "dilations=rate name"),
        "sigmoid_cross_entropy_with_logits": "labels logits name",
        "softmax": "logits axis name",
        "space_to_depth": "input block_size data_format name",
        "sparse_softmax_cross_entropy_with_logits": "labels logits name",
        "sufficient_statistics": "x axes shift keepdims=keep_dims name",
        "weighted_cross_entropy_with_logits": "labels=targets logits pos_weight name",
        "weighted_moments": "x axes frequency_weights keepdims=keep_dims name",
    },
    "quantization": {f"fake_quant_with_min_max_{kind}": (
        f"{first}inputs min max num_bits narrow_range name") for kind, first in (
            ("args", ""), ("vars", ""), ("vars_per_channel", ""), ("args_gradient", "gradients "),
            ("vars_gradient", "gradients "), ("vars_per_channel_gradient", "gradients "))},
    "random": {"poisson": "shape lam dtype seed name"},
    "sparse": {
        "add": "a b threshold=thresh",
        "concat": "axis sp_inputs expand_nonconcat_dims=expand_nonconcat_dim name",
        "eye": "num_rows num_columns dtype name",
        **{f"segment_{kind}": _SEGMENT for kind in ("mean", "sqrt_n", "sum")},
    },
    "strings": {
        "length": "input unit name",
        "reduce_join": "inputs axis keepdims=keep_dims separator name",
        "substr": "input pos len unit name",
        "to_hash_bucket": "input=string_tensor num_buckets name",
        "to_number": "input=string_tensor out_type name",
    },
    "train": {
        "list_variables": "ckpt_dir_or_file=checkpoint_dir",
        "load_checkpoint": "ckpt_dir_or_file=filepattern",
        "load_variable": "ckpt_dir_or_file=checkpoint_dir name",
    },
}

SIGNATURES: dict[str, str] = _AT_ROOT | {
    f"{module}.{name}": order for module, names in _BELOW.items() for name, order in names.items()}

# What the old function is told besides, if nothing else is given.
MORE: dict[str, dict[str, object]] = {f"nn.{name}": {"partition_strategy": "div"} for name in (
    "embedding_lookup", "embedding_lookup_sparse", "nce_loss", "safe_embedding_lookup_sparse",
    "sampled_softmax_loss")}
MORE |= {f"nn.{name}": {"padding": "VALID"} for name in ("convolution", "pool")}

# Names that stand for another function or module of the package.
OTHERS = {
    "batch_to_space": "batch_to_space_nd",
    "initializers": "keras.initializers",
    "losses": "keras.losses",
    "metrics": "keras.metrics",
    "nn.avg_pool": "nn.avg_pool_v2",
    "nn.ctc_loss": "nn.ctc_loss_v2",
    "nn.max_pool": "nn.max_pool_v2",
    "nn.softmax_cross_entropy_with_logits": "nn.softmax_cross_entropy_with_logits_v2",
    "nn.space_to_batch": "space_to_batch_nd",
    "optimizers": "keras.optimizers",
    "random.set_seed": "set_random_seed",
    "space_to_batch": "space_to_batch_nd",
    "where": "where_v2",
}

# Names of the package that are not in the v2 interface, or mean there what hpcflow does without.
_GONE = """
    AttrValue ConditionalAccumulator ConditionalAccumulatorBase ConfigProto Dimension Event
    FIFOQueue FixedLenFeature FixedLenSequenceFeature FixedLengthRecordReader GPUOptions GraphDef
    GraphKeys GraphOptions HistogramProto IdentityReader InteractiveSession LMDBReader
    LogMessage MetaGraphDef NameAttrList NodeDef OptimizerOptions PaddingFIFOQueue Print
    PriorityQueue QueueBase RandomShuffleQueue ReaderBase RunMetadata RunOptions Session SessionLog
    SparseConditionalAccumulator SparseFeature SparseTensorValue Summary SummaryMetadata
    TFRecordReader TextLineReader VarLenFeature VariableScope WholeFileReader add_check_numerics_ops
    add_to_collection add_to_collections all_variables app assign assign_add assign_sub
    assign_variables batch_gather container contrib count_nonzero create_partitioned_variables
    disable_eager_execution disable_v2_behavior div distributions enable_eager_execution flags
    get_collection get_collection_ref get_default_graph get_default_session get_local_variable
    get_variable get_variable_scope gfile global_variables global_variables_initializer
    initialize_all_tables initialize_all_variables initialize_variables is_variable_initialized
    layers local_variables local_variables_initializer log logging make_template manip
    min_max_variable_partitioner model_variables moving_average_variables multinomial op_scope
    placeholder placeholder_with_default py_func python_io report_uninitialized_variables
    reset_default_graph resource_loader scatter_add scatter_nd_add scatter_nd_sub
    scatter_nd_update scatter_sub scatter_update set_random_seed sparse_placeholder spectral
    tables_initializer to_double to_float to_int32 to_int64 trainable_variables user_ops
    variable_axis_size_partitioner variable_op_scope variable_scope variables_initializer
    wrap_function
    image.resize summary.audio summary.histogram summary.image summary.scalar summary.text
"""
GONE = frozenset(_GONE.split())
