"""Hyperbolic functions and their inverses, and the angle of a point."""

from __future__ import annotations

from hpcflow.kernels.registry import ufunc

for _op_type, _name in (
        ("Sinh", "sinh"), ("Cosh", "cosh"), ("Asinh", "arcsinh"), ("Acosh", "arccosh"),
        ("Atanh", "arctanh"), ("Atan2", "arctan2")):
    ufunc(_op_type, _name)
