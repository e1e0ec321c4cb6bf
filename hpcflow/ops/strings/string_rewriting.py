"""Lengths and cases of strings, and what patterns find in them."""

from __future__ import annotations

from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import unchanged

__all__: list[str] = []

_UNIT = "unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'"
_ENCODING = "encoding: {'', 'utf-8'} = ''"
register_op("StringLength", "input: string", "output: int32", _UNIT, shape=unchanged)
register_op("StringStrip", "input: string", "output: string", shape=unchanged)
for _op_type in ("StringLower", "StringUpper"):
    register_op(_op_type, "input: string", "output: string", _ENCODING, shape=unchanged)
register_op("StaticRegexReplace", "input: string", "output: string",
            "pattern: string; rewrite: string; replace_global: bool = true", shape=unchanged)
register_op("RegexReplace", "input: string; pattern: string; rewrite: string", "output: string",
            "replace_global: bool = true", shape=unchanged)
register_op("RegexFullMatch", "input: string; pattern: string", "output: bool", shape=unchanged)
not_differentiable("StringLength", "StringStrip", "StringLower", "StringUpper",
                   "StaticRegexReplace", "RegexReplace", "RegexFullMatch")


def regex_replace(input: TensorLike, pattern: TensorLike, rewrite: TensorLike,
                  replace_global: bool = True, name: str | None = None) -> Tensor:
    r"""Return the strings with what matches `pattern` replaced by `rewrite`, where ``\1`` to ``\9``
    stand for groups; only the first match of each without `replace_global`.

    A pattern and a rewrite that are known are parts of the op; else both are string scalars.
    """
    if isinstance(pattern, (str, bytes)) and isinstance(rewrite, (str, bytes)):
        return raw_ops.StaticRegexReplace(input, pattern=pattern, rewrite=rewrite,
                                          replace_global=replace_global, name=name)
    return raw_ops.RegexReplace(input, pattern, rewrite, replace_global=replace_global, name=name)


def regex_full_match(input: TensorLike, pattern: TensorLike, name: str | None = None) -> Tensor:
    """Return for each string whether it matches `pattern` as a whole, which is a part of the op
    where it is known."""
    if isinstance(pattern, (str, bytes)):
        return raw_ops.StaticRegexFullMatch(input, pattern=pattern, name=name)
    return raw_ops.RegexFullMatch(input, pattern, name=name)


def string_length(input: TensorLike, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Return the length of each string: int32, in bytes or (`unit` ``"UTF8_CHAR"``) characters.

    Raises ``ValueError`` for another unit.
    """
    return raw_ops.StringLength(input, unit=unit, name=name)
