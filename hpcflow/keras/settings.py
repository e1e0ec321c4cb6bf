"""What new layers of keras have unless they say otherwise: element type, places of channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

_SETTINGS: dict[str, Any] = {"floatx": "float32", "epsilon": 1e-7,
                             "image_data_format": "channels_last"}


def backend() -> str:
    """Return the name that programs for 1.x expect."""
    return "tensorflow"


def floatx() -> str:
    """Return the name of the element type of new layers."""
    return _SETTINGS["floatx"]


def set_floatx(value: str) -> None:
    """Let new layers have another element type: float16, float32 or float64."""
    if value not in ("float16", "float32", "float64"):
        raise ValueError(f"Unknown floatx type: {value}")
    _SETTINGS["floatx"] = value


def epsilon() -> float:
    """Return the small number that losses and optimizers add."""
    return _SETTINGS["epsilon"]


def set_epsilon(value: float) -> None:
    """Let :func:`epsilon` return another number."""
    _SETTINGS["epsilon"] = value


def image_data_format() -> str:
    """Return where images have their channels: ``channels_last`` or ``channels_first``."""
    return _SETTINGS["image_data_format"]


def set_image_data_format(data_format: str) -> None:
    """Let layers without a data format have this one."""
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f"Unknown data_format: {data_format}")
    _SETTINGS["image_data_format"] = data_format


def cast_to_floatx(x: TensorLike) -> np.ndarray:
    """Return an array of :func:`floatx`."""
    return np.asarray(x, dtype=floatx())
