"""The sources of the paths below ``hpcflow.contrib`` that are those of 1.x."""

from __future__ import annotations

from hpcflow.api.entry import RAW, Entry

# Files and folders of 1.x below packages of contrib.
_SLIM = ("evaluation", "learning", "model_analyzer", "queues", "summaries",
         *(f"data.{name}" for name in (
             "data_decoder", "data_provider", "dataset", "dataset_data_provider",
             "parallel_reader", "prefetch_queue", "tfexample_decoder")),
         *(f"nets.{name}" for name in (
             "alexnet", "inception", "inception_v1", "inception_v2", "inception_v3", "overfeat",
             "resnet_utils", "resnet_v1", "resnet_v2", "vgg")))
_FILES = {
    "copy_graph": ("python.util.copy_elements",),
    "cudnn_rnn": ("python.layers", "python.layers.cudnn_rnn", "python.ops.cudnn_rnn_ops"),
    "eager": ("python.tfe",),
    "factorization": ("python.ops.clustering_ops", "python.ops.factorization_ops",
                      "python.ops.kmeans"),
    "graph_editor": ("edit", "reroute", "select", "subgraph", "transform", "util"),
    "framework": ("python.framework.checkpoint_utils", "python.framework.tensor_util",
                  "python.ops", "python.ops.arg_scope", "python.ops.ops",
                  "python.ops.script_ops", "python.ops.variables"),
    "image": ("python.ops.distort_image_ops", "python.ops.image_ops"),
    "layers": ("python.layers", "python.layers.embedding_ops", "python.layers.encoders",
               "python.layers.feature_column", "python.layers.feature_column_ops",
               "python.layers.initializers", "python.layers.layers",
               "python.layers.normalization", "python.layers.optimizers",
               "python.layers.regularizers", "python.layers.rev_block_lib",
               "python.layers.summaries", "python.layers.utils", "python.ops",
               "python.ops.bucketization_op", "python.ops.sparse_feature_cross_op",
               "python.ops.sparse_ops"),
    "legacy_seq2seq": ("python.ops.seq2seq",),
    "losses": ("python.losses.loss_ops", "python.metric_learning",
               "python.metric_learning.metric_loss_ops"),
    "metrics": ("python.metrics", "python.metrics.classification", "python.ops.histogram_ops",
                "python.ops.metric_ops"),
    "cluster_resolver": ("python.training", "python.training.cluster_resolver"),
    "model_pruning": ("python.layers.layers", "python.layers.rnn_cells", "python.learning",
                      "python.pruning", "python.strip_pruning_vars_lib"),
    "nn": tuple(f"python.ops.{name}" for name in (
        "alpha_dropout", "fwd_gradients", "sampling_ops", "scaled_softplus")),
    "opt": tuple(f"python.training.{name}" for name in (
        "adam_gs_optimizer", "adamax", "addsign", "agn_optimizer",
        "ggt", "matrix_functions", "shampoo",
        "drop_stale_gradient_optimizer", "elastic_average_optimizer", "external_optimizer",
        "lazy_adam_gs_optimizer", "model_average_optimizer", "multitask_optimizer_wrapper",
        "reg_adagrad_optimizer", "lazy_adam_optimizer",
        "moving_average_optimizer", "nadam_optimizer", "powersign", "sign_decay",
        "variable_clipping_optimizer", "weight_decay_optimizers")),
    "quantize": ("python.quantize_graph",),
    "rnn": ("python.ops.core_rnn", "python.ops.core_rnn_cell", "python.ops.core_rnn_cell_impl",
            "python.ops.fused_rnn_cell", "python.ops.gru_ops", "python.ops.lstm_ops",
            "python.ops.rnn", "python.ops.rnn_cell"),
    "seq2seq": ("python.ops.attention_wrapper", "python.ops.basic_decoder",
                "python.ops.beam_search_decoder", "python.ops.beam_search_ops",
                "python.ops.decoder", "python.ops.helper", "python.ops.loss"),
    "predictor": ("core_estimator_predictor", "predictor_factories", "saved_model_predictor"),
    "saved_model": ("python.saved_model.reader", "python.saved_model.signature_def_utils"),
    "testing": ("python.framework.fake_summary_writer", "python.framework.util_test"),
    "slim": tuple(f"python.slim.{name}" for name in _SLIM),
    "training": tuple(f"python.training.{name}" for name in (
        "bucket_ops", "device_setter", "evaluation", "hparam", "resample", "sampling_ops",
        "sequence_queueing_state_saver", "training")),
}
_ATTENTION = "hpcflow.contrib.seq2seq.attention"
_ATTENTION_HELPERS = {
    "_BaseAttentionMechanism": f"{_ATTENTION}:BaseAttentionMechanism",
    "_bahdanau_score": f"{_ATTENTION}:bahdanau_scores",
    "_luong_score": f"{_ATTENTION}:luong_scores",
    "_compute_attention": f"{_ATTENTION}_wrapper:compute_attention"}
_NETWORKS = "hpcflow.contrib.cudnn_rnn"
_SOURCES = {
    "cudnn_rnn.python.layers.cudnn_rnn": (f"{_NETWORKS}.layers", f"{_NETWORKS}.operations"),
    "cudnn_rnn.python.ops.cudnn_rnn_ops": tuple(f"{_NETWORKS}.{name}" for name in (
        "models", "operations", "conversion", "saveables", "cells")),
    "image.python.ops.distort_image_ops": ("hpcflow.contrib.image.distort",),
    **{f"losses.python.metric_learning{path}": ("hpcflow.contrib.losses.metric_learning",)
       for path in ("", ".metric_loss_ops")},
    **{f"layers.python.layers.{name}": (
        "hpcflow.contrib.layers", *(f"hpcflow.contrib.layers.{part}" for part in (
            "columns", "dense_columns", "numeric_columns", "column_layers"))) for name in (
                "feature_column", "feature_column_ops")},
    "layers.python.ops.bucketization_op": (RAW,),
    "layers.python.ops.sparse_feature_cross_op": ("hpcflow.contrib.layers.crossing",
                                                  "hpcflow.contrib.layers"),
    "layers.python.ops.sparse_ops": ("hpcflow.contrib.layers.sparse_ids",),
    "layers.python.layers.utils": ("hpcflow.contrib.slim.utils", "hpcflow.contrib.layers.building",
                                   "hpcflow.layers.building"),
    "opt.python.training.matrix_functions": ("hpcflow.contrib.opt.matrix_roots",),
    "rnn.python.ops.core_rnn_cell": ("hpcflow.contrib.rnn", "hpcflow.contrib.rnn.basic_cells"),
    "rnn.python.ops.rnn_cell": ("hpcflow.contrib.rnn", "hpcflow.contrib.rnn.minimal_cells",
                                "hpcflow.contrib.rnn.normalized_lstm"),
    **{f"slim.python.slim.{path}": (f"hpcflow.contrib.slim.{path}",) for path in _SLIM},
}
_SEQUENCES = "hpcflow.contrib.training.sequence_batches"
_PREDICTING = "hpcflow.contrib.predictor.predicting"
_RESAMPLING = "hpcflow.contrib.training.resampling"
_HELPERS = {
    "layers.python.layers.feature_column": {
        "_FeatureColumn": "hpcflow.contrib.layers.columns:FeatureColumn",
        "_SparseColumn": "hpcflow.contrib.layers.columns:SparseColumn"},
    "layers.python.layers.layers": {
        "_inner_flatten": "hpcflow.contrib.layers.shaping:inner_flatten",
        "poincare_normalize": "hpcflow.contrib.layers.normalization:poincare_normalize"},
    "layers.python.layers.optimizers": {
        "adaptive_clipping_fn": "hpcflow.contrib.layers.optimizing:adaptive_clipping_fn"},
    "metrics.python.ops.metric_ops": {
        "_next_array_size": "hpcflow.contrib.metrics.stored:next_capacity"},
    "training.python.training.resample": {"_repeat_range": f"{_RESAMPLING}:repeated"},
    "training.python.training.sampling_ops": {
        "_estimate_data_distribution": f"{_RESAMPLING}:estimated"},
    "predictor.core_estimator_predictor": {
        "CoreEstimatorPredictor": f"{_PREDICTING}:from_estimator"},
    "predictor.saved_model_predictor": {"SavedModelPredictor": f"{_PREDICTING}:from_saved_model"},
    "training.python.training.sequence_queueing_state_saver": {
        "_padding": f"{_SEQUENCES}:padded",
        "_deconstruct_sparse_tensor_seq": f"{_SEQUENCES}:sparse_parts_stored",
        "_reconstruct_sparse_tensor_seq": f"{_SEQUENCES}:sparse_parts_restored"},
    "cudnn_rnn.python.ops.cudnn_rnn_ops": {"_cudnn_rnn": f"{_NETWORKS}.operations:cudnn_rnn"},
    "seq2seq.python.ops.attention_wrapper": _ATTENTION_HELPERS,
    **{f"rnn.python.ops.{path}": {
        "_linear": "hpcflow.contrib.rnn.linear:linear",
        "_Linear": "hpcflow.contrib.rnn.linear:Linear"} for path in (
            "core_rnn_cell", "core_rnn_cell_impl", "rnn_cell")},
    "seq2seq.python.ops.decoder": {
        "_transpose_batch_time": "hpcflow.contrib.rnn.linear:transpose_batch_time"},
}
_INSIDE = {
    f"{package}.{path}": Entry(_SOURCES.get(f"{package}.{path}",
                                                    (f"hpcflow.contrib.{package}",)),
                                _HELPERS.get(f"{package}.{path}", {}))
    for package, paths in _FILES.items() for path in paths
}

# Packages of contrib that later became packages of their own.
_VIEWS = {
    "data.python.ops": Entry(("hpcflow.contrib.data",)),
    **{f"data.python.ops.{name}": Entry(("hpcflow.contrib.data",)) for name in (
        "batching", "dataset_ops", "grouping", "interleave_ops", "iterator_ops", "readers",
        "shuffle_ops", "sliding")},
    "distributions.python.ops.distribution_util": Entry(("hpcflow.distributions.util",)),
    "tfprof": Entry(("hpcflow.profiler",)),
    "tfprof.model_analyzer": Entry(("hpcflow.profiler.model_analyzer", "hpcflow.profiler")),
    "framework.python.ops.audio_ops": Entry(("hpcflow.ops.io.audio",)),
    "estimator": Entry(("hpcflow.estimator", "hpcflow.estimator.experimental",
                        "hpcflow.estimator.more_heads", "hpcflow.estimator.supervised",
                        "hpcflow.estimator.extending", "hpcflow.estimator.recurrent",
                        "hpcflow.estimator.replicating")),
    "estimator.python.estimator.replicate_model_fn": Entry(("hpcflow.estimator.replicating",)),
    "estimator.python.estimator.export": Entry(("hpcflow.estimator.supervised",)),
    "estimator.python.estimator.head": Entry(("hpcflow.estimator.more_heads",)),
    "estimator.python.estimator.multi_head": Entry(("hpcflow.estimator.more_heads",)),
    "estimator.python.estimator.rnn": Entry(("hpcflow.estimator.recurrent",)),
    "estimator.python.estimator.early_stopping": Entry(("hpcflow.estimator.experimental",)),
    "keras": Entry(("hpcflow.keras",)),
    **{f"learn.python.learn.{path}": Entry((f"hpcflow.contrib.learn.{path}",)) for path in (
        "datasets", "datasets.base", "datasets.mnist", "preprocessing", "preprocessing.text")},
    "linalg": Entry(("hpcflow.linear_operators",)),
    "learn.python.learn.preprocessing.categorical_vocabulary": Entry(
        ("hpcflow.contrib.learn.preprocessing",)),
    **{f"learn.python.{path}": Entry(("hpcflow.contrib.learn",)) for path in (
        "learn", "learn.evaluable", "learn.trainable", "learn.experiment", "learn.estimators",
        "learn.export_strategy", "learn.metric_spec", "learn.utils",
        *(f"learn.estimators.{name}" for name in (
            "constants", "dnn", "dnn_linear_combined", "estimator", "head", "linear",
            "metric_key", "model_fn", "prediction_key")),
        *(f"learn.utils.{name}" for name in ("input_fn_utils", "saved_model_export_utils")))},
    "learn.python.learn.estimators._sklearn": Entry(("hpcflow.contrib.learn.model_fn",)),
    **{f"learn.python.learn.{path}": Entry(("hpcflow.contrib.learn.inputs",)) for path in (
        "learn_io", "learn_io.numpy_io", "learn_io.pandas_io")},
    **{f"learn.python.learn.{path}": Entry((f"hpcflow.contrib.learn.{path}",)) for path in (
        "models", "ops")},
    "learn.python.learn.monitors": Entry(("hpcflow.contrib.learn.monitors",)),
    "learn.python.learn.estimators.run_config": Entry(("hpcflow.contrib.learn.run_config",)),
    "learn.basic_session_run_hooks": Entry(("hpcflow.train",)),
    "learn.python.learn.learn_runner": Entry(("hpcflow.contrib.learn.learn_runner",)),
    "metrics.python.ops.set_ops": Entry(("hpcflow.ops.sparse.sets",)),
    "optimizer_v2": Entry(("hpcflow.optimizers",),
                          {"OptimizerV2": "hpcflow.optimizers:Optimizer"}),
    "signal": Entry(("hpcflow.signal",)),
    **{f"tpu.python.{path}": Entry(("hpcflow.contrib.tpu",)) for path in (
        "ops.tpu_ops", "tpu.tpu", "tpu.tpu_config", "tpu.tpu_estimator", "tpu.tpu_function",
        "tpu.tpu_optimizer", "tpu.bfloat16")},
}

CONTRIB = {**_VIEWS, **_INSIDE}
