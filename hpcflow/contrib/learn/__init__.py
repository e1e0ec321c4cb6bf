"""``hpcflow.contrib.learn``: what programs take from it besides estimators: data sets, words as
numbers, and the keys of modes."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.learn import datasets, preprocessing
from hpcflow.contrib.learn.modes import ModeKeys
from hpcflow.estimator import RunConfig
from hpcflow.estimator.export import ServingInputReceiver

__all__ = ["ModeKeys", "RunConfig", "ServingInputReceiver", "datasets", "preprocessing"]

__getattr__ = named_otherwise(__name__)
