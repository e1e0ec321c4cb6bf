"""``hpcflow.contrib.learn``: what programs take from it besides estimators: data sets, words as
numbers, experiments, and the keys of modes."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.learn import datasets, learn_runner, preprocessing
from hpcflow.contrib.learn.experiment import Experiment
from hpcflow.contrib.learn.modes import ModeKeys
from hpcflow.contrib.learn.run_config import RunConfig, TaskType
from hpcflow.estimator.export import ServingInputReceiver

__all__ = ["Experiment", "ModeKeys", "RunConfig", "ServingInputReceiver", "TaskType", "datasets",
           "learn_runner", "preprocessing"]

__getattr__ = named_otherwise(__name__)
