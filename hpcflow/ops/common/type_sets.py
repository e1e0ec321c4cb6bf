"""Sets of element types that many ops share, in the notation of ``register_op``."""

from __future__ import annotations

#: Everything arithmetic works on, quantized integers included.
NUMBER = ("{float, double, int64, int32, uint8, uint16, int16, int8, complex64, complex128, "
          "qint8, quint8, qint32, half}")  # fmt: skip
#: What later writers compute with as well.
LATER = "bfloat16, uint32, uint64"
#: Everything that sums, products and counts are made of.
SUMMED = f"{NUMBER[:-1]}, {LATER}}}"
#: The numbers that have an order.
REAL = "{float, double, int32, int64, uint8, int16, int8, uint16, half}"
#: All that is compared.
ORDERED = f"{REAL[:-1]}, {LATER}}}"
#: The real floating-point numbers.
FLOAT = "{half, float, double}"
#: Floating-point numbers, real or complex.
FLOAT_OR_COMPLEX = "{half, float, double, complex64, complex128}"
#: Floating-point numbers with bfloat16.
ANY_FLOAT = f"{FLOAT[:-1]}, bfloat16}}"
#: The same, and complex numbers.
ANY_FLOAT_OR_COMPLEX = f"{FLOAT_OR_COMPLEX[:-1]}, bfloat16}}"
#: Signed numbers, real or complex.
SIGNED = "{half, float, double, int32, int64, complex64, complex128}"
#: The types of indices.
INDEX = "{int32, int64}"
#: An attribute: what is done about indices that are out of bounds.
BAD_INDICES = "bad_indices_policy: {'', 'DEFAULT', 'ERROR', 'IGNORE'} = ''"
