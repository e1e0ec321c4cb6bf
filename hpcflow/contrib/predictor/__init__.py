"""``hpcflow.contrib.predictor``: functions of arrays made of exported models."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.predictor.predicting import Predictor, from_estimator, from_saved_model

__all__ = ["Predictor", "from_estimator", "from_saved_model"]

__getattr__ = named_otherwise(__name__)
