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
    "GradientTape": _EAGER,
    "Module": "`hf.layers.Layer` or `hf.variable_scope`",
    "RaggedTensor": "`hf.SparseTensor`, or padded rows with `hf.sequence_mask`",
    **{f"contrib.autograph.{name}": "`hf.cond`, `hf.while_loop`, `hf.case`" for name in (
        "to_code", "to_graph", "trace")},
    "contrib.all_reduce": "`hf.mpi.allreduce`",
    "contrib.batching": "`hf.data.Dataset.batch`",
    "contrib.bayesflow": "`hf.distributions`",
    "contrib.bigtable": _FILES,
    "contrib.boosted_trees": "",
    "contrib.cloud": _FILES,
    **{f"contrib.cluster_resolver.{name}": "`hf.contrib.cluster_resolver.MPIClusterResolver`"
       for name in ("GceClusterResolver", "KubernetesClusterResolver", "UnionClusterResolver")},
    "contrib.coder": "",
    "contrib.copy_graph": "`hf.train.export_meta_graph` and `hf.train.import_meta_graph`",
    "contrib.decision_trees": "",
    "contrib.distribute": _RANKS,
    **{f"contrib.distributions.{name}": "`hf.contrib.distributions.MixtureSameFamily`" for name in (
        "Mixture", "PoissonLogNormalQuadratureCompound", "VectorDiffeomixture")},
    "contrib.distributions.ConditionalTransformedDistribution":
        "`hf.contrib.distributions.TransformedDistribution`",
    "contrib.distributions.bijectors.ConditionalBijector":
        "`hf.contrib.distributions.bijectors.Inline`, or a `Bijector` of your own",
    **{f"contrib.factorization.{name}": "" for name in (
        "GMM", "GmmAlgorithm", "WALSMatrixFactorization", "WALSModel", "gmm")},
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
    **{f"contrib.layers.{name}": f"`hf.feature_column.{now}`" for name, now in {
        "bucketized_column": "bucketized_column",
        "create_feature_spec_for_parsing": "make_parse_example_spec",
        "crossed_column": "crossed_column", "embedding_column": "embedding_column",
        "input_from_feature_columns": "input_layer", "one_hot_column": "indicator_column",
        "parse_feature_columns_from_examples": "make_parse_example_spec",
        "real_valued_column": "numeric_column",
        "scattered_embedding_column": "embedding_column",
        "shared_embedding_columns": "shared_embedding_columns",
        "sparse_column_with_hash_bucket": "categorical_column_with_hash_bucket",
        "sparse_column_with_integerized_feature": "categorical_column_with_identity",
        "sparse_column_with_keys": "categorical_column_with_vocabulary_list",
        "sparse_column_with_vocabulary_file": "categorical_column_with_vocabulary_file",
        "weighted_sparse_column": "weighted_categorical_column",
        "weighted_sum_from_feature_columns": "linear_model",
    }.items()},
    "contrib.layers.recompute_grad": "`hf.gradients`, which computes anew what is cheap",
    "contrib.layers.sequence_input_from_feature_columns":
        "`hf.contrib.feature_column.sequence_input_layer`",
    "contrib.predictor.from_contrib_estimator": "`hf.contrib.predictor.from_estimator`",
    **{f"strings.{name}": "`hf.strings.split`, or `hf.py_func` over the strings" for name in (
        "bytes_split", "ngrams", "unicode_decode", "unicode_decode_with_offsets",
        "unicode_encode", "unicode_script", "unicode_split", "unicode_split_with_offsets")},
    **{f"contrib.learn.{name}": f"`hf.estimator.{name}`" for name in (
        "DNNClassifier", "DNNLinearCombinedClassifier", "DNNLinearCombinedRegressor",
        "DNNRegressor", "Estimator", "LinearClassifier", "LinearRegressor")},
    **{f"contrib.learn.{name}": use for name, use in {
        "BaseEstimator": "`hf.estimator.Estimator`", "Evaluable": "`hf.estimator.Estimator`",
        "Trainable": "`hf.estimator.Estimator`",
        "ExportStrategy": "`hf.estimator.LatestExporter`",
        "InputFnOps": "`hf.estimator.export.ServingInputReceiver`",
        "KMeansClustering": "`hf.contrib.factorization.KMeansClustering`",
        "MetricSpec": "`eval_metric_ops` of `hf.estimator.EstimatorSpec`",
        "ModelFnOps": "`hf.estimator.EstimatorSpec`",
        "PredictionKey": "`hf.estimator` and the keys of its predictions",
        "ProblemType": "`hf.estimator`",
        "SKCompat": "`hf.estimator.Estimator` with `hf.estimator.inputs.numpy_input_fn`",
        "evaluate": "`hf.contrib.slim.evaluation.evaluate_once`", "infer": "a session",
        "build_parsing_serving_input_fn":
            "`hf.estimator.export.build_parsing_serving_input_receiver_fn`",
        "extract_dask_data": "`dask` itself", "extract_dask_labels": "`dask` itself",
        "extract_pandas_data": "`DataFrame.values`",
        "extract_pandas_labels": "`DataFrame.values`",
        "extract_pandas_matrix": "`DataFrame.values`",
        "graph_actions": "`hf.train.MonitoredTrainingSession`",
        "infer_real_valued_columns_from_input": "`hf.feature_column.numeric_column`",
        "infer_real_valued_columns_from_input_fn": "`hf.feature_column.numeric_column`",
        "make_export_strategy": "`hf.estimator.LatestExporter`",
        "monitors": "hooks: `hf.train.SessionRunHook`", "ops": "`hf.layers`, `hf.nn`",
        "models": "`hf.layers`", "io": "`hf.estimator.inputs`", "run_n": "`hf.Session.run`",
        "run_feeds": "`hf.Session.run`", "multi_class_head": "`hf.estimator`",
        "regression_head": "`hf.estimator`", "binary_svm_head": "`hf.estimator`",
        "multi_head": "`hf.estimator`", "multi_label_head": "`hf.estimator`",
        "LogisticRegressor": "`hf.estimator.LinearClassifier`",
        "DynamicRnnEstimator": "`hf.estimator.Estimator` with `hf.nn.dynamic_rnn`",
        "SVM": "`hf.estimator.LinearClassifier`",
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
    "contrib.model_pruning": "",
    "contrib.mpi_collectives": "`hf.mpi`",
    "contrib.nccl": "`hf.mpi.allreduce`",
    "contrib.proto": "`hf.parse_example`",
    "contrib.quantize": "`hf.fake_quant_with_min_max_vars`",
    "contrib.rpc": "`hf.py_func`",
    "contrib.saved_model": _SAVED,
    "contrib.solvers": "`hf.matrix_solve`, `hf.matrix_solve_ls`",
    "contrib.summary": "`hf.summary`",
    "contrib.tensor_forest": "",
    "contrib.tensorrt": "",
    "contrib.text": "",
    "contrib.timeseries": "",
    "contrib.verbs": "MPI, which uses the network's own means",
    "distribute": _RANKS,
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
    "vectorized_map": "`hf.map_fn`, or ops over a batch",
    "xla": "nothing: steps are compiled in any case",
}


def hint(module: str, name: str) -> str:
    """Return what an error says behind a missing name of a module; "" for unknown ones."""
    path = f"{module}.{name}".removeprefix("hpcflow.")
    if path not in INSTEAD:
        return ""
    return f": hpcflow does without; use {INSTEAD[path]}" if INSTEAD[path] else \
        ": hpcflow does without"
