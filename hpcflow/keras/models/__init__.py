"""``keras.models``: models, and their files."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.keras import layers
from hpcflow.keras.engine.saving import (
    clone_model,
    load_model,
    model_from_config,
    model_from_json,
    save_model,
)
from hpcflow.keras.engine.sequential import Sequential
from hpcflow.keras.engine.training import Model

__all__ = ["Model", "Sequential", "clone_model", "load_model", "model_from_config",
           "model_from_json", "save_model"]


__getattr__ = named_otherwise(__name__)
