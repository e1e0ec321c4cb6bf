"""The dtypes that a signature allows and no CPU kernel serves: listed with the reason, or wrong."""

from __future__ import annotations

import re

import hpcflow as hf
from hpcflow.dtypes import DType, float32
from hpcflow.graph.importer import LOWERED
from hpcflow.graph.opdef import registered_ops
from hpcflow.kernels.registry import ANY_ARRAY_DEVICE, registered_kernels
from hpcflow.kernels.widening import NARROW

QUANTIZED = {"qint8", "quint8", "qint32", "qint16", "quint16"}
COMPLEX = {"complex64", "complex128"}
INTEGERS = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
NOT_REAL = QUANTIZED | COMPLEX | INTEGERS

# Op types (a pattern), the dtypes that their kernels leave out, why.
STATED = (
    ("(Resource)?(Sparse)?Apply.*", NOT_REAL, "learning rates are fractions"),
    ("Conv3D.*|AvgPool3D.*", NOT_REAL, "averages and weights are fractions"),
    ("FusedBatchNorm(Grad)?|BatchNormWithGlobalNormalization(Grad)?", NOT_REAL,
     "what is normalized is a fraction"),
    ("MaxPool3D.*", QUANTIZED | COMPLEX, "complex numbers have no order"),
    ("Acos|Asin|Atan|Tan|Inv|Reciprocal|RealDiv", INTEGERS, "the result is no integer"),
    ("FloorDiv|TruncateDiv|Round", COMPLEX, "complex numbers are not rounded"),
)


def _computed_as(dtype: DType) -> tuple[DType, ...]:
    """The dtypes whose kernels serve `dtype`."""
    return (dtype, float32) if dtype in NARROW else (dtype,)


def unserved() -> dict[str, set[str]]:
    """Op type -> allowed dtypes without a kernel for the CPU."""
    with hf.Session():
        pass  # the first session registers every kernel
    found: dict[str, set[str]] = {}
    for op_type, op_def in registered_ops().items():
        kernels = [k for k in registered_kernels(op_type)
                   if k.device_type in ("CPU", ANY_ARRAY_DEVICE)]
        for attr in op_def.attrs:
            # What has no kernel at all is replaced when a graph is imported or a step compiled.
            if attr.type != "type" or not attr.allowed or op_type in LOWERED or not kernels:
                continue
            missing = {d.name for d in attr.allowed if not any(
                t in k.types.get(attr.name, (t,)) for k in kernels for t in _computed_as(d))}
            if missing:
                found.setdefault(op_type, set()).update(missing)
    return found


def test_every_allowed_dtype_has_a_kernel_or_a_reason() -> None:
    wrong = {}
    for op_type, dtypes in unserved().items():
        stated = set().union(*(d for pattern, d, _ in STATED if re.fullmatch(pattern, op_type)))
        if dtypes - stated:
            wrong[op_type] = sorted(dtypes - stated)
    assert not wrong, f"no CPU kernel: {wrong}"


def test_no_reason_is_out_of_date() -> None:
    found = unserved()
    for pattern, dtypes, _ in STATED:
        left_out = set().union(*(d for op, d in found.items() if re.fullmatch(pattern, op)))
        assert dtypes & left_out, pattern
