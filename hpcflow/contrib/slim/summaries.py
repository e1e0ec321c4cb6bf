"""``slim.summaries``: summaries named after their tensors, with a prefix."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import hpcflow as hf
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor


def _name(tensor: Any, name: str | None, prefix: str | None, postfix: str | None = None) -> str:
    return "/".join(part for part in (prefix, name or tensor.op.name, postfix) if part)


def _printed(function: Any, tensor: Any, name: str, print_summary: bool) -> Tensor:
    """The summary; if asked to, it prints the tensor whenever it is computed."""
    if not print_summary:
        return function(name, tensor)
    made = hf.Print(function(name, tensor, collections=[]), [tensor], name)
    hf.add_to_collection(hf.GraphKeys.SUMMARIES, made)
    return made


def add_histogram_summary(tensor: TensorLike, name: str | None = None,
                          prefix: str | None = None) -> Tensor:
    """Return the histogram summary ``prefix/name``; the name is that of the tensor if None."""
    return hf.summary.histogram(_name(tensor, name, prefix), tensor)


def add_image_summary(tensor: TensorLike, name: str | None = None, prefix: str | None = None,
                      print_summary: bool = False) -> Tensor:
    """As :func:`add_histogram_summary`, of images; `print_summary`: print them in every step."""
    return _printed(hf.summary.image, tensor, _name(tensor, name, prefix), print_summary)


def add_scalar_summary(tensor: TensorLike, name: str | None = None, prefix: str | None = None,
                       print_summary: bool = False) -> Tensor:
    """As :func:`add_histogram_summary`, of a scalar; `print_summary`: print it in every step."""
    return _printed(hf.summary.scalar, tensor, _name(tensor, name, prefix), print_summary)


def add_zero_fraction_summary(tensor: TensorLike, name: str | None = None,
                              prefix: str | None = None, print_summary: bool = False) -> Tensor:
    """As :func:`add_scalar_summary`, of the share of zeros: ``.../Fraction_of_Zero_Values``."""
    return add_scalar_summary(hf.nn.zero_fraction(tensor),
                              _name(tensor, name, prefix, "Fraction_of_Zero_Values"),
                              print_summary=print_summary)


def add_histogram_summaries(tensors: Iterable[TensorLike], prefix: str | None = None) -> list:
    """Return :func:`add_histogram_summary` of each."""
    return [add_histogram_summary(tensor, prefix=prefix) for tensor in tensors]


def add_image_summaries(tensors: Iterable[TensorLike], prefix: str | None = None) -> list:
    """Return :func:`add_image_summary` of each."""
    return [add_image_summary(tensor, prefix=prefix) for tensor in tensors]


def add_scalar_summaries(tensors: Iterable[TensorLike], prefix: str | None = None,
                         print_summary: bool = False) -> list:
    """Return :func:`add_scalar_summary` of each."""
    return [add_scalar_summary(tensor, prefix=prefix, print_summary=print_summary)
            for tensor in tensors]


def add_zero_fraction_summaries(tensors: Iterable[TensorLike], prefix: str | None = None) -> list:
    """Return :func:`add_zero_fraction_summary` of each."""
    return [add_zero_fraction_summary(tensor, prefix=prefix) for tensor in tensors]
