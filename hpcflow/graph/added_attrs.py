"""Attributes that later versions of the GraphDef format added to existing op types.

A graph written by a later producer carries them with values that ask for the original behaviour;
such a value says nothing and may be dropped on import. Any other value must not be ignored.
"""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes

# Attributes that never change a result: which operands of a product are gradients, how data sets
# are called and where and how they compute.
_HINTS = frozenset(("grad_a", "grad_b", "grad_x", "grad_y", "metadata", "use_default_device",
                    "force_synchronous", "use_unbounded_threadpool", "replicate_on_split",
                    "is_files", "buffer_size_min", "parallel_copy", "sparse_gradient"))

# Attributes of later versions that are supported here. They are written only where they differ
# from their default, so that graphs without them stay readable by older readers.
ADDED_LATER = frozenset(("Tk", "Tsegmentids", "Tshape", "blank_index", "dilations", "encoding",
                         "explicit_paddings", "exponential_avg_factor", "fill_mode",
                         "half_pixel_centers", "hop_bytes", "ignore_longer_outputs_than_inputs",
                         "index_type", "narrow_range", "noise", "num_bits", "out_type",
                         "output_dtype", "reduction_type", "unit"))

# Attribute -> the values that ask for what the op type has always done.
_NEUTRAL: dict[str, tuple] = {
    "axis": (-1,),
    "data_format": (b"NHWC", b"NDHWC"),
    "ensure_minimum_range": (0.009999999776482582, 0.01),
    "incompatible_shape_error": (True, False),  # shapes that do not fit are an error anyway
    "lower_bound": (float("-inf"),),
    "noise": (b"uniform",),
    "num_bits": (8,),
    "out_type": (dtypes.string,),
    "output_dtype": (dtypes.int64,),
    "output_type": (dtypes.int64,),
    "reduction_type": (b"MEAN",),
    "round_mode": (b"HALF_AWAY_FROM_ZERO",),
    "shape_type": (dtypes.int32,),
    "skip_empty": (True,),
    "unit": (b"BYTE",),
    "update_slots": (True,),
    "upper_bound": (float("inf"),),
    "use_quote_delim": (True,),
}


def says_nothing(attr: str, value: Any) -> bool:
    """True if an attribute that an op type lacks here may be dropped.

    That holds for hints, for empty and false values, for windows of ones, for the neutral values
    above, and for types: a type that matters disagrees with the inputs, which are checked.
    """
    if attr in _HINTS:
        return True
    if attr in _NEUTRAL:
        return value in _NEUTRAL[attr] or value in (None, [], b"")
    if isinstance(value, dtypes.DType):
        return True
    if isinstance(value, list):
        return all(v == 1 for v in value)
    return value is None or value is False or value == b"" or (
        isinstance(value, (int, float)) and value == 0)
