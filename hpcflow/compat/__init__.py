"""``hpcflow.compat``: texts and bytes, kinds of numbers, and the interface of 1.x as ``v1``."""

from hpcflow.platform.compat import (
    as_bytes,
    as_str,
    as_str_any,
    as_text,
    bytes_or_text_types,
    complex_types,
    integral_types,
    real_types,
)
from hpcflow.shapes import dimension_at_index, dimension_value
