"""What examples in files must have for the canned estimators."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.dtypes import DTypeLike


def classifier_parse_example_spec(feature_columns: Any, label_key: str,
                                  label_dtype: DTypeLike = hf.int64, label_default: Any = None,
                                  weight_column: Any = None) -> dict:
    """Return the features of ``parse_example`` for a classifier: those of the columns, the label
    and the weights.

    Args:
        feature_columns: what the estimator is given.
        label_key: the label's name in the examples.
        label_dtype: int64, or string.
        label_default: the label of examples that have none; if None they must have one.
        weight_column: None, a name, or a ``numeric_column``.

    Raises ``ValueError`` for a name that stands for two things.
    """
    label = hf.FixedLenFeature((1,), label_dtype, label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def regressor_parse_example_spec(feature_columns: Any, label_key: str,
                                 label_dtype: DTypeLike = hf.float32, label_default: Any = None,
                                 label_dimension: int = 1, weight_column: Any = None) -> dict:
    """Return the features of ``parse_example`` for a regressor, whose labels are vectors of
    `label_dimension` numbers; other arguments as of :func:`classifier_parse_example_spec`."""
    label = hf.FixedLenFeature((label_dimension,), label_dtype, label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def _with_label(columns: Any, key: str, label: Any, weight: Any) -> dict:
    spec = hf.feature_column.make_parse_example_spec(columns)
    if key in spec:
        raise ValueError(f"label should not be used as feature. label_key: {key}, "
                         f"features: {sorted(spec)}")
    spec[key] = label
    if weight is not None:
        column = hf.feature_column.numeric_column(weight) if isinstance(weight, str) else weight
        if column.name in spec:
            raise ValueError("weight_column should not be used as feature. weight_column: "
                             f"{column.name}, features: {sorted(spec)}")
        spec.update(column._parse_example_spec)
    return spec
