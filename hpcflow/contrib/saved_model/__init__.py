"""``hpcflow.contrib.saved_model``: what SavedModels of a directory hold."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.saved_model.reading import get_saved_model_tag_sets, get_signature_def_by_key
from hpcflow.saved_model.files import read_saved_model

__all__ = ["get_saved_model_tag_sets", "get_signature_def_by_key", "read_saved_model"]

__getattr__ = named_otherwise(__name__)
