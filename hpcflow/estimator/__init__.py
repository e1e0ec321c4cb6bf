"""``hpcflow.estimator``: models as functions of features, labels and mode, trained, evaluated,
used for predictions and exported by one object."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.estimator import experimental, export, inputs
from hpcflow.estimator.base import Estimator
from hpcflow.estimator.canned import (
    DNNClassifier,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedRegressor,
    DNNRegressor,
    LinearClassifier,
    LinearRegressor,
)
from hpcflow.estimator.exporters import BestExporter, Exporter, FinalExporter, LatestExporter
from hpcflow.estimator.extending import add_metrics
from hpcflow.estimator.of_heads import (
    BaselineClassifier,
    BaselineEstimator,
    BaselineRegressor,
    DNNEstimator,
    DNNLinearCombinedEstimator,
    LinearEstimator,
)
from hpcflow.estimator.run_config import RunConfig
from hpcflow.estimator.spec import EstimatorSpec, ModeKeys
from hpcflow.estimator.train_and_evaluate import EvalSpec, TrainSpec, train_and_evaluate
from hpcflow.train.warm_starting import WarmStartSettings

__all__ = [
    "BaselineClassifier", "BaselineEstimator", "BaselineRegressor", "BestExporter",
    "DNNClassifier", "DNNEstimator", "DNNLinearCombinedEstimator", "LinearEstimator",
    "add_metrics", "DNNLinearCombinedClassifier", "DNNLinearCombinedRegressor",
    "DNNRegressor", "Estimator", "EstimatorSpec", "EvalSpec", "Exporter", "FinalExporter",
    "LatestExporter", "LinearClassifier", "LinearRegressor", "ModeKeys", "RunConfig", "TrainSpec",
    "WarmStartSettings", "experimental", "export", "inputs", "train_and_evaluate",
]  # fmt: skip

__getattr__ = named_otherwise(__name__)
