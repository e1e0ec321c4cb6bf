"""``hpcflow.contrib.learn``: the estimators of early releases over those of ``hf.estimator``, data
sets, words as numbers, experiments."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.learn import datasets, learn_runner, models, monitors, ops, preprocessing
from hpcflow.contrib.learn import inputs as io
from hpcflow.contrib.learn.canned import (
    DNNClassifier,
    DNNEstimator,
    DNNRegressor,
    LinearClassifier,
    LinearEstimator,
    LinearRegressor,
)
from hpcflow.contrib.learn.combined import (
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
)
from hpcflow.contrib.learn.estimator import (
    BaseEstimator,
    Estimator,
    Evaluable,
    SKCompat,
    Trainable,
    infer_real_valued_columns_from_input,
    infer_real_valued_columns_from_input_fn,
)
from hpcflow.contrib.learn.experiment import Experiment
from hpcflow.contrib.learn.exporting import (
    ExportStrategy,
    InputFnOps,
    build_parsing_serving_input_fn,
    make_export_strategy,
)
from hpcflow.contrib.learn.heads import (
    Head,
    multi_class_head,
    no_op_train_fn,
    poisson_regression_head,
    regression_head,
)
from hpcflow.contrib.learn.inputs import (
    extract_pandas_data,
    extract_pandas_labels,
    extract_pandas_matrix,
    numpy_input_fn,
    pandas_input_fn,
)
from hpcflow.contrib.learn.logistic import LogisticRegressor
from hpcflow.contrib.learn.metric_spec import MetricSpec
from hpcflow.contrib.learn.model_fn import (
    MetricKey,
    ModelFnOps,
    NotFittedError,
    PredictionKey,
    ProblemType,
)
from hpcflow.contrib.learn.modes import ModeKeys
from hpcflow.contrib.learn.monitors import NanLossDuringTrainingError
from hpcflow.contrib.learn.run_config import Environment, RunConfig, TaskType
from hpcflow.estimator.export import ServingInputReceiver

__all__ = [
    "BaseEstimator", "DNNClassifier", "DNNEstimator", "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator", "DNNLinearCombinedRegressor", "DNNRegressor", "Environment",
    "Estimator", "Evaluable", "Experiment", "ExportStrategy", "Head", "InputFnOps",
    "LinearClassifier", "LinearEstimator", "LinearRegressor", "LogisticRegressor", "MetricKey",
    "MetricSpec", "ModeKeys", "ModelFnOps", "NanLossDuringTrainingError", "NotFittedError",
    "PredictionKey", "ProblemType", "RunConfig", "SKCompat", "ServingInputReceiver", "TaskType",
    "Trainable", "build_parsing_serving_input_fn", "datasets",
    "extract_pandas_data", "extract_pandas_labels", "extract_pandas_matrix",
    "infer_real_valued_columns_from_input", "infer_real_valued_columns_from_input_fn", "io",
    "learn_runner", "make_export_strategy", "models", "monitors", "multi_class_head",
    "no_op_train_fn", "numpy_input_fn", "ops", "pandas_input_fn", "poisson_regression_head",
    "preprocessing", "regression_head",
]  # fmt: skip

__getattr__ = named_otherwise(__name__)
