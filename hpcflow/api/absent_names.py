"""Names of 1.x that hpcflow does not have, and what to use in their place.

The errors of missing attributes say so, and the page on programs of 1.x shows the table.
"""

from __future__ import annotations

_RANKS = "MPI ranks: `hf.mpi.DistributedOptimizer`, or `hf.train.Server` with parameter servers"
_SAVED = "`hf.saved_model.Builder` or `hf.saved_model.simple_save`"
_EAGER = "the graph: `hf.Session`; `hf.gradients` for derivatives"
_FILES = "files that all ranks see, read by `hf.data`"

# Name below hpcflow -> what to use instead; "" where there is nothing.
INSTEAD: dict[str, str] = {
    "LMDBReader": _FILES,
    "RaggedTensorSpec": "`hf.SparseTensorSpec`",
    "OptionalSpec": "`hf.TensorSpec`", "TensorArraySpec": "`hf.TensorSpec`",
    "config.experimental_connect_to_cluster": _RANKS,
    "config.experimental_connect_to_host": _RANKS,
    "enable_tensor_equality": "`hf.equal`, element by element",
    "enable_v2_tensorshape": "`hf.Dimension.value`",
    "wrap_function": "`hf.framework.function.Defun`",
    "io.decode_proto": "`hf.parse_example`", "io.encode_proto": "`hf.py_func`",
    "random.experimental": "`hf.random`, or `hf.contrib.stateless`",
    "saved_model.load_v2": "`hf.saved_model.load`", "saved_model.experimental": _SAVED,
    "nn.ctc_beam_search_decoder_v2":
        "`hf.nn.ctc_beam_search_decoder` with ``merge_repeated=False``",
    "nn.compute_average_loss": "`hf.reduce_mean`", "nn.scale_regularization_loss": "the loss",
    "train.experimental": "casts to `hf.float16` and a loss that is scaled in the graph",
    **{f"train.sdca_{name}": "`hf.train.FtrlOptimizer`" for name in (
        "fprint", "optimizer", "shrink_l1")},
    "estimator.BoostedTreesEstimator": "", "estimator.BoostedTreesRegressor": "",
    "estimator.Head": "`hf.estimator.MultiClassHead` and its kin",
    **{f"estimator.experimental.{name}": "`hf.estimator.Estimator` with a function of your own"
       for name in ("LinearSDCA", "call_logit_fn", "dnn_logit_fn_builder",
                    "linear_logit_fn_builder")},
    "estimator.experimental.make_stop_at_checkpoint_step_hook": "`hf.train.StopAtStepHook`",
    "layers.experimental": "`hf.layers`", "contrib.lookup.experimental": "`hf.contrib.lookup`",
    "test.StubOutForTesting": "`unittest.mock`", "test.benchmark_config": "`hf.ConfigProto`",
    **{f"profiler.{name}": "`hf.profiler.profile`" for name in (
        "AdviceProto", "GraphNodeProto", "MultiGraphNodeProto", "OpLogProto", "write_op_log")},
    **{f"data.experimental.{name}": "`hf.profiler`, or `hpcflow.tools.timeline`" for name in (
        "StatsAggregator", "bytes_produced_stats", "latency_stats")},
    **{f"flags.{name}": "`absl.flags`, whose flags are their own" for name in (
        "ArgumentParser", "ArgumentSerializer", "BaseListParser", "BooleanFlag",
        "CantOpenFlagFileError", "CsvListSerializer", "DEFINE", "DEFINE_enum_class",
        "DEFINE_flag", "DEFINE_multi", "DEFINE_multi_enum_class", "DuplicateFlagError",
        "EnumClassFlag", "EnumClassListSerializer", "EnumClassParser", "EnumClassSerializer",
        "EnumFlag", "EnumParser", "Error", "FlagHolder", "FlagNameConflictsWithMethodError",
        "FlagValues", "FloatParser", "IllegalFlagValueError", "IntegerParser", "ListParser",
        "ListSerializer", "MultiEnumClassFlag", "MultiFlag", "UnparsedFlagAccessError",
        "UnrecognizedFlagError", "ValidationError", "WhitespaceSeparatedListParser",
        "doc_to_help", "flag_dict_to_args", "get_help_width", "override_value", "text_wrap")},
    "flags.tf_decorator": "`functools.wraps`",
    **{f"flags.{name}": "`__future__`, which has it in any case" for name in (
        "absolute_import", "division", "print_function")},
    **{f"contrib.checkpoint.{name}": "`hf.train.Checkpoint`" for name in (
        "Checkpointable", "CheckpointableBase", "CheckpointableObjectGraph",
        "NumpyState", "PythonStateWrapper", "UniqueNameTracker", "capture_dependencies",
        "dot_graph_from_checkpoint", "list_objects", "object_metadata", "split_dependency")},
    "contrib.constrained_optimization": "the penalties in the loss",
    "contrib.crf.CrfDecodeBackwardRnnCell": "`hf.contrib.crf.crf_decode`",
    "contrib.crf.CrfDecodeForwardRnnCell": "`hf.contrib.crf.crf_decode`",
    "contrib.data.LMDBDataset": _FILES, "contrib.data.assert_element_shape": "`hf.ensure_shape`",
    "contrib.data.read_batch_features": "`hf.data.experimental.make_batched_features_dataset`",
    "contrib.estimator.SavedModelEstimator": "`hf.contrib.predictor.from_saved_model`",
    **{f"contrib.estimator.{name}": "`hf.estimator.Estimator` with a function of your own"
       for name in ("DNNClassifierWithLayerAnnotations", "DNNRegressorWithLayerAnnotations",
                    "call_logit_fn", "dnn_logit_fn_builder", "linear_logit_fn_builder")},
    **{f"contrib.estimator.boosted_trees_{name}_train_in_memory": "" for name in (
        "classifier", "regressor")},
    **{f"contrib.learn.read_keyed_batch_{name}_shared_queue": _FILES for name in (
        "examples", "features")},
    **{f"debugging.{name}_log_device_placement": "`hf.ConfigProto`, `log_device_placement`"
       for name in ("get", "set")},
    **{f"contrib.eager.{name}": _EAGER for name in (
        "ASYNC", "Checkpointable", "DEVICE_PLACEMENT_EXPLICIT", "DEVICE_PLACEMENT_SILENT",
        "DEVICE_PLACEMENT_WARN", "EagerVariableStore", "ExecutionCallback", "GradientTape",
        "Iterator", "Network", "SYNC", "Saver", "Sequential", "add_execution_callback",
        "async_clear_error", "async_wait", "clear_execution_callbacks", "connect_to_remote_host",
        "enable_remote_eager_execution", "errstate", "execution_mode", "function",
        "get_optimizer_variables", "gradients_function", "implicit_gradients",
        "implicit_value_and_gradients", "inf_callback", "inf_nan_callback", "metrics",
        "nan_callback", "restore_network_checkpoint", "restore_variables_on_create", "run",
        "save_network_checkpoint", "set_execution_mode", "set_server_def", "seterr",
        "value_and_gradients_function")},
    "contrib.framework.BoundedTensorSpec": "`hf.TensorSpec`",
    "contrib.framework.RecordInput": "`hf.data.TFRecordDataset`",
    "contrib.framework.fuse_op": "nothing: steps are compiled in any case",
    "contrib.framework.load_variable_slot_initializer":
        "`hf.contrib.framework.load_and_remap_matrix_initializer`",
    **{f"contrib.graph_editor.{name}": "`hf.contrib.graph_editor.graph_replace`" for name in (
        "Transformer", "assign_renamed_collections_handler", "copy_op_handler",
        "keep_t_if_possible_handler", "replace_t_with_placeholder_handler",
        "transform_op_if_inside_handler")},
    **{f"contrib.image.{name}": "`hf.py_func` over the arrays" for name in (
        "connected_components", "single_image_random_dot_stereograms")},
    "contrib.periodic_resample": "`hf.depth_to_space`",
    "contrib.quantization": "`hf.quantize_v2`, `hf.dequantize` and `hf.raw_ops`",
    "contrib.receptive_field": "", "contrib.remote_fused_graph": "",
    "contrib.recurrent": "`hf.nn.dynamic_rnn`", "contrib.reduce_slice_ops": "`hf.segment_sum`",
    "contrib.specs": "`hf.contrib.slim`",
    "contrib.summary.create_db_writer": "`hf.contrib.summary.create_file_writer`",
    **{f"contrib.tpu.{name}": "`hf.contrib.tpu.TPUEstimator`, which runs on CPUs and GPUs"
       for name in (
           "AsyncCheckpointSaverHook", "DeviceAssignment", "InfeedQueue",
           "TPUDistributionStrategy", "Topology", "batch_parallel", "core", "device_assignment",
           "export_estimator_savedmodel", "infeed_dequeue", "infeed_dequeue_tuple",
           "infeed_enqueue", "infeed_enqueue_tuple", "keras_to_tpu_model", "outfeed_dequeue",
           "outfeed_dequeue_tuple", "outfeed_enqueue", "outfeed_enqueue_tuple", "profiler",
           "repeat", "shard", "while_loop")},
    "contrib.training.FeedingQueueRunner": "`hf.data`, with `hf.nn.dynamic_rnn`",
    **{f"contrib.util.{name}": "`hf.graph_util`" for name in (
        "loader", "ops_used_by_graph_def", "stripped_op_list_for_graph")},
    "GradientTape": _EAGER,
    "RaggedTensor": "`hf.SparseTensor`, or padded rows with `hf.sequence_mask`",
    **{f"contrib.autograph.{name}": "`hf.cond`, `hf.while_loop`, `hf.case`" for name in (
        "to_code", "to_graph", "trace")},
    "contrib.all_reduce": "`hf.mpi.allreduce`",
    "contrib.batching": "`hf.data.Dataset.batch`",
    "contrib.bayesflow": "`hf.distributions`",
    "contrib.bigtable": _FILES,
    "contrib.boosted_trees": "`sklearn.ensemble`, or a network of `hf.layers`",
    "contrib.cloud": _FILES,
    **{f"contrib.cluster_resolver.{name}": "`hf.contrib.cluster_resolver.MPIClusterResolver`"
       for name in ("GceClusterResolver", "KubernetesClusterResolver", "UnionClusterResolver")},
    "contrib.coder": "",
    "contrib.decision_trees": "",
    **{f"contrib.distributions.{name}": "`hf.contrib.distributions.MixtureSameFamily`" for name in (
        "PoissonLogNormalQuadratureCompound", "VectorDiffeomixture")},
    "contrib.distributions.VectorSinhArcsinhDiag":
        "`hf.contrib.distributions.Independent` of a `SinhArcsinh`",
    **{f"contrib.distributions.{name}": "" for name in (
        "Autoregressive", "BatchReshape", "ConditionalDistribution", "auto_correlation",
        "normal_conjugates_known_scale_posterior", "normal_conjugates_known_scale_predictive",
        "quadrature_scheme_lognormal_gauss_hermite", "quadrature_scheme_lognormal_quantiles",
        "quadrature_scheme_softmaxnormal_gauss_hermite",
        "quadrature_scheme_softmaxnormal_quantiles")},
    **{f"contrib.distributions.{name}": "`hf.train.ExponentialMovingAverage`" for name in (
        "assign_log_moving_mean_exp", "assign_moving_mean_variance", "moving_mean_variance")},
    "contrib.distributions.estimator_head_distribution_regression": "`hf.estimator.RegressionHead`",
    "contrib.distributions.matrix_diag_transform": "`hf.matrix_set_diag`",
    "contrib.distributions.tridiag": "`hf.linalg.tridiagonal_matmul`",
    "contrib.learn.loss_only_head": "a loss that the model function adds",
    "contrib.learn.train": "`hf.contrib.training.train`",
    "contrib.distributions.ConditionalTransformedDistribution":
        "`hf.contrib.distributions.TransformedDistribution`",
    "contrib.distributions.bijectors.ConditionalBijector":
        "`hf.contrib.distributions.bijectors.Inline`, or a `Bijector` of your own",
    **{f"contrib.factorization.{name}": "" for name in (
        "GMM", "GmmAlgorithm", "WALSMatrixFactorization", "gmm")},
    "contrib.ffmpeg": "",
    "contrib.gan": "`hf.layers` and two optimizers with `var_list`",
    "contrib.gdr": "MPI, which uses the network's own means",
    "contrib.grid_rnn": "`hf.contrib.rnn`",
    "contrib.hadoop": _FILES,
    "contrib.input_pipeline": "`hf.data`",
    "contrib.integrate": "`hf.while_loop`",
    "contrib.kafka": "`hf.data.Dataset.from_generator`",
    "contrib.kernel_methods": "",
    "contrib.kinesis": "`hf.data.Dataset.from_generator`",
    "contrib.labeled_tensor": "",
    "contrib.layers.scattered_embedding_column": "`hf.contrib.layers.embedding_column`",
    "contrib.layers.joint_weighted_sum_from_feature_columns":
        "`hf.contrib.layers.weighted_sum_from_feature_columns`",
    "contrib.layers.sequence_input_from_feature_columns":
        "`hf.contrib.feature_column.sequence_input_layer`",
    "contrib.predictor.from_contrib_estimator": "`hf.contrib.predictor.from_estimator`",
    **{f"strings.{name}": "`hf.strings.split`, or `hf.py_func` over the strings" for name in (
        "bytes_split", "ngrams", "unicode_decode", "unicode_decode_with_offsets",
        "unicode_encode", "unicode_script", "unicode_split", "unicode_split_with_offsets")},
    **{f"contrib.learn.{name}": use for name, use in {
        "evaluate": "`hf.contrib.slim.evaluation.evaluate_once`", "infer": "a session",
        "ClusterConfig": "`hf.contrib.learn.RunConfig`",
        "build_default_serving_input_fn":
            "`hf.estimator.export.build_raw_serving_input_receiver_fn`",
        "export_estimator": "`hf.contrib.learn.Estimator` and its `export_savedmodel`",
        "generator_input_fn": "`hf.data.Dataset.from_generator`",
        "extract_dask_data": "`dask` itself", "extract_dask_labels": "`dask` itself",
        "graph_actions": "`hf.train.MonitoredTrainingSession`",
        "KMeansClustering": "`hf.contrib.factorization.KMeansClustering`",
        "run_n": "`hf.Session.run`", "run_feeds": "`hf.Session.run`",
        "binary_svm_head": "`hf.estimator`", "multi_head": "`hf.contrib.estimator.multi_head`",
        "multi_label_head": "`hf.estimator.MultiLabelHead`",
        "DynamicRnnEstimator": "`hf.estimator.Estimator` with `hf.nn.dynamic_rnn`",
        "SVM": "`hf.estimator.LinearClassifier`",
        "monitors.get_default_monitors": "`hf.contrib.learn.monitors.PrintTensor`",
        "monitors.ExportMonitor": "`hf.contrib.learn.Experiment`, `export_strategies`",
        "monitors.GraphDump": "`hf.contrib.learn.monitors.CaptureVariable`",
        **dict.fromkeys(("read_batch_examples", "read_batch_features",
                         "read_batch_record_features", "read_keyed_batch_examples",
                         "read_keyed_batch_features", "queue_parsed_features",
                         "DataFrame", "FeedFnWrapper"), _FILES),
    }.items()},
    **{f"contrib.learn.datasets.{name}": "arrays of your own: nothing is downloaded" for name in (
        "load_boston", "load_dbpedia", "load_iris", "make_dataset", "text_datasets",
        "synthetic")},
    "contrib.linear_optimizer": "`hf.train.FtrlOptimizer`",
    "contrib.lite": "",
    "contrib.memory_stats": "`HPCFLOW_PRINT_MEMORY=1`, or `hf.profiler`",
    "contrib.mixed_precision": "casts to `hf.float16` and a loss that is scaled in the graph",
    "contrib.mpi_collectives": "`hf.mpi`",
    "contrib.nccl": "`hf.mpi.allreduce`",
    "contrib.proto": "`hf.parse_example`",
    "contrib.rpc": "`hf.py_func`",
    **{f"contrib.saved_model.{name}": _SAVED for name in ("load_keras_model", "save_keras_model")},
    "contrib.solvers": "`hf.matrix_solve`, `hf.matrix_solve_ls`",
    "contrib.tensor_forest": "`sklearn.ensemble`, or a network of `hf.layers`",
    "contrib.tensorrt": "",
    "contrib.text": "",
    "contrib.timeseries":
        "`hf.keras.layers.LSTM` or `hf.nn.dynamic_rnn` over windows of the series",
    "contrib.verbs": "MPI, which uses the network's own means",
    "enable_v2_behavior": _EAGER,
    "estimator.BoostedTreesClassifier": "",
    "experimental": "",
    "function": "`hf.framework.function.Defun`",
    "keras.applications": "a model built of `hf.keras.layers`, with weights of your own",
    "keras.datasets": "`numpy.load` of data that you have: nothing is downloaded",
    "keras.mixed_precision": "casts to `hf.float16` and a loss that is scaled in the graph",
    **{f"linalg.LinearOperator{kind}": "`hf.linalg.LinearOperatorFullMatrix`" for kind in (
        "Permutation", "Tridiag")},
    "lite": "",
    "ragged": "`hf.sparse`",
    "random.Generator": "`hf.random`, or `hf.contrib.stateless`",
    "saved_model.save": _SAVED,
    "summary.create_file_writer": "`hf.summary.FileWriter`",
    "sysconfig": "`hpcflow.extending`, for ops in Python",
    "contrib.cluster_resolver.GCEClusterResolver":
        "`hf.contrib.cluster_resolver.MPIClusterResolver`",
    **{f"contrib.lookup.{name}": "`hf.contrib.lookup.HashTable`" for name in (
        "InitializableLookupTableBase", "TableInitializerBase")},
    "contrib.stat_summarizer": "`hf.profiler.profile`",
    "contrib.tfprof.ProfileContext": "`hf.profiler.profile`",
    "CXX11_ABI_FLAG": "nothing: nothing is compiled against hpcflow",
    "MONOLITHIC_BUILD": "nothing: nothing is compiled against hpcflow",
    "logging.TaskLevelStatusMessage": "`hf.logging.info`",
    "nondifferentiable_batch_function": "`hf.data.Dataset.batch`",
    "quantization.quantize_and_dequantize": "`hf.quantize_v2` and `hf.dequantize`",
    "resource_loader.get_root_dir_with_all_resources": "`hf.resource_loader.get_data_files_path`",
    "vectorized_map": "`hf.map_fn`, or ops over a batch",
    "xla": "nothing: steps are compiled in any case",
}


# Paths below hpcflow -> what to use instead of whatever is missing there. What has a row above
# needs none here: it is about all names below it, too.
BELOW: dict[str, str] = {
    "autograph": "`hf.cond`, `hf.while_loop`, `hf.case`",
    "config": "`hf.ConfigProto`",
    "contrib.autograph": "`hf.cond`, `hf.while_loop`, `hf.case`",
    "contrib.layers": "`hf.layers`, or `hf.feature_column` for columns",
    "contrib.rnn": "`hf.contrib.rnn.LSTMBlockCell` and its kin",
    "contrib.slim": "`hf.contrib.layers`, or `hf.feature_column` for columns",
    "data": "`hf.data.Dataset` and its methods",
    "keras": "`hf.layers`, `hf.nn`, `hf.train`, which make layers and models of `hf.keras`, too",
    "logging": "`hf.logging.info` and its kin",
    "python.autograph": "`hf.cond`, `hf.while_loop`, `hf.case`",
    "python": "public names instead of those inside of 1.x",
    "python.data": "`hf.data.Dataset` and its methods",
    "python.eager": _EAGER,
    "python.keras": "`hf.keras`, `hf.layers`",
    "python.pywrap_tensorflow": "`hf.Session`, `hf.train.NewCheckpointReader`, `hf.python_io`",
    "python.tpu": "`hf.contrib.tpu.TPUEstimator`, which runs on CPUs and GPUs",
    "contrib.tpu": "`hf.contrib.tpu.TPUEstimator`, which runs on CPUs and GPUs",
    "tpu": "`hf.contrib.tpu.TPUEstimator`, which runs on CPUs and GPUs",
}


# Modules -> the public paths of their names.
_PUBLIC = {"hpcflow.platform.flags": "hpcflow.flags", "hpcflow.test_util": "hpcflow.test",
           "hpcflow.platform.logging": "hpcflow.logging",
           "hpcflow.platform.devices.physical": "hpcflow.config.experimental",
           "hpcflow.platform.resource_loader": "hpcflow.resource_loader"}


def hint(module: str, name: str) -> str:
    """Return what an error says behind a missing name of a module; "" for unknown ones."""
    path = f"{_PUBLIC.get(module, module)}.{name}".removeprefix("hpcflow.")
    instead = INSTEAD.get(path)
    while instead is None:
        path, dot, _ = path.rpartition(".")
        if not dot:
            return ""
        instead = INSTEAD.get(path, BELOW.get(path))
    return f": hpcflow does without; use {instead}" if instead else ": hpcflow does without"


def import_error(path: str) -> ModuleNotFoundError | None:
    """Return the error of importing a module that hpcflow does without; None for unknown ones.

    Its name is the one below hpcflow: ``from PACKAGE import NAME`` hides errors of the full name.
    """
    package, _, name = path.rpartition(".")
    instead = hint(package, name)
    return ModuleNotFoundError(f"No module named '{path}'{instead}",
                               name=path.removeprefix("hpcflow.")) if instead else None
