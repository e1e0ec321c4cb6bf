"""einsum: sums of products of tensors, by Einstein's convention."""

from __future__ import annotations

import re
import string
from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.shapes import TensorShape

__all__ = ["einsum"]


def einsum(equation: str, *inputs: Any, name: str | None = None) -> Tensor:
    """Return the sums of products that `equation` describes, as ``"ij,jk->ik"`` a matrix product.

    Each input has one letter per dimension; letters that the result does not have are summed over.
    Without ``->`` the result has the letters that occur once, in alphabetical order.

    An ellipsis stands for any number of dimensions, which broadcast between the inputs: those of
    size 1 are taken as such where the static shape tells it.

    A letter that occurs twice in one input takes its diagonal.

    Raises ``ValueError`` for an equation that does not fit the inputs.
    """
    with name_scope(name, "einsum", list(inputs)):
        tensors = [convert_to_tensor(x) for x in inputs]
        if _spans_unknown(equation, tensors):
            return _over_unknown_spans(equation, tensors)
        terms, result = _parse(*_without_ellipsis(equation, tensors), equation)
        operands = [_Operand(x, t, equation).distinct()
                    for x, t in zip(tensors, terms, strict=True)]
        sizes = _Sizes(operands, equation)
        total = operands[0]
        for i, operand in enumerate(operands[1:], 1):
            wanted = set(result).union(*(o.labels for o in operands[i + 1 :]))
            total = _product(total.summed(wanted | set(operand.labels)),
                             operand.summed(wanted | set(total.labels)), wanted, sizes)
        return total.summed(set(result)).transposed(result).tensor


_DOTS = "..."


def _without_ellipsis(text: str, tensors: list[Tensor]) -> tuple[str, list[Tensor]]:
    """The equation with a letter for each dimension that an ellipsis stands for.

    An input's dimension of size 1 has none if that of another input may be longer: it is removed.
    """
    text = text.replace(" ", "")
    if _DOTS not in text:
        return text, tensors
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        return text, tensors  # the caller says what is wrong
    spanned = [_spanned(t, x, text) for t, x in zip(terms, tensors, strict=True)]
    depth = max(len(s) for s in spanned)
    free = [c for c in string.ascii_letters if c not in text]
    if depth > len(free):
        raise ValueError(f"einsum {text!r}: too many dimensions")
    letters = free[len(free) - depth:]
    stretched = [any(len(s) > k and s[-1 - k] != 1 for s in spanned) for k in range(depth)][::-1]
    for i, (term, sizes) in enumerate(zip(terms, spanned, strict=True)):
        first = depth - len(sizes)
        kept = [k for k, size in enumerate(sizes, first) if size != 1 or not stretched[k]]
        gone = [term.index(_DOTS) + k - first for k in range(first, depth) if k not in kept]
        if gone:
            tensors[i] = raw_ops.Squeeze(tensors[i], squeeze_dims=gone)
        terms[i] = term.replace(_DOTS, "".join(letters[k] for k in kept))
    if not arrow:
        result = _implied(terms, "".join(letters))
    return ",".join(terms) + "->" + result.replace(_DOTS, "".join(letters)), tensors


def _spanned(term: str, tensor: Tensor, equation: str) -> tuple:
    """The sizes of the dimensions that the ellipsis of a term stands for."""
    if _DOTS not in term:
        return ()
    before, _, after = term.partition(_DOTS)
    assert tensor._dims is not None
    count = len(tensor._dims) - len(before) - len(after)
    if count < 0:
        raise ValueError(f"einsum {equation!r}: '{term}' does not fit shape {tensor.shape}")
    return tensor._dims[len(before): len(before) + count]


def _implied(terms: list[str], besides: str) -> str:
    """The result of an equation without one: the ellipsis, and the letters that occur once."""
    letters = "".join(terms).replace(_DOTS, "")
    return _DOTS + "".join(sorted(c for c in set(letters) - set(besides) if letters.count(c) == 1))


# ---------------------------------------------------------------- ellipses of unknown ranks


def _spans_unknown(text: str, tensors: list[Tensor]) -> bool:
    """True if an ellipsis stands for dimensions of which the number is not known."""
    terms = text.partition("->")[0].split(",")
    return len(terms) == len(tensors) and any(
        _DOTS in t and x._dims is None for t, x in zip(terms, tensors, strict=True))


def _over_unknown_spans(text: str, tensors: list[Tensor]) -> Tensor:
    """The sum of products with one dimension for those of the ellipses, as they broadcast."""
    left, arrow, result = text.replace(" ", "").partition("->")
    terms = left.split(",")
    letter = next(c for c in string.ascii_letters if c not in text)
    result = result if arrow else _implied(terms, "")
    first = {i: _ellipsis_first(x, *_around(t))
             for i, (t, x) in enumerate(zip(terms, tensors, strict=True)) if _DOTS in t}
    span, *others = (span for _, span, _ in first.values())
    for other in others:
        span = raw_ops.BroadcastArgs(span, other)
    whole = raw_ops.Prod(span, np.array([0], np.int32), keep_dims=True)
    for i, (x, _, own) in first.items():
        x = raw_ops.BroadcastTo(x, raw_ops.ConcatV2([span, own], 0))
        tensors[i] = raw_ops.Reshape(x, raw_ops.ConcatV2([whole, own], 0))
        terms[i] = letter + terms[i].replace(_DOTS, "")
    before, after = _around(result)
    joined = einsum(",".join(terms) + f"->{letter if _DOTS in result else ''}" + result.replace(
        _DOTS, ""), *tensors)
    if _DOTS not in result:
        return joined
    joined = raw_ops.Reshape(joined, raw_ops.ConcatV2(
        [span, raw_ops.Slice(raw_ops.Shape(joined), [1], [-1])], 0))
    count = raw_ops.Size(span)
    return raw_ops.Transpose(joined, raw_ops.ConcatV2(
        [_range(count, count + before), _range(0, count),
         _range(count + before, count + (before + after))], 0))


def _around(term: str) -> tuple[int, int]:
    """The numbers of letters before and after the ellipsis."""
    before, _, after = term.partition(_DOTS)
    return len(before), len(after)


def _ellipsis_first(x: Tensor, before: int, after: int) -> tuple[Tensor, Tensor, Tensor]:
    """The tensor with the dimensions of the ellipsis first, their sizes, and those of others."""
    rank = raw_ops.Rank(x)
    count = rank - (before + after)
    x = raw_ops.Transpose(x, raw_ops.ConcatV2(
        [_range(before, rank - after), _range(0, before), _range(rank - after, rank)], 0))
    shape = raw_ops.Shape(x)
    count = raw_ops.ExpandDims(count, np.int32(0))
    return x, raw_ops.Slice(shape, [0], count), raw_ops.Slice(shape, count, [-1])


def _range(start: Any, limit: Any) -> Tensor:
    return raw_ops.Range(start, limit, np.int32(1))


# ---------------------------------------------------------------- letters


def _parse(text: str, tensors: list[Tensor], equation: str) -> tuple[list[str], str]:
    """The letters of the inputs, and of the result."""
    count = len(tensors)
    match = re.fullmatch(r"([a-zA-Z]*(?:,[a-zA-Z]*)*)(?:->([a-zA-Z]*))?", text)
    if match is None:
        raise ValueError(f"Invalid einsum equation: {equation!r}")
    terms = match.group(1).split(",")
    letters = "".join(terms)
    result = match.group(2)
    if result is None:
        result = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if len(terms) != count:
        raise ValueError(f"einsum {equation!r} has {len(terms)} terms for {count} inputs")
    if len(set(result)) != len(result):
        raise ValueError(f"einsum {equation!r}: a letter occurs twice in the result '{result}'")
    if not set(result) <= set(letters):
        raise ValueError(f"einsum {equation!r}: the result has letters that no input has")
    return terms, result


class _Operand:
    """A tensor with one label per dimension."""

    def __init__(self, tensor: Tensor, labels: str, equation: str = "") -> None:
        if tensor._dims is not None and len(tensor._dims) != len(labels):
            raise ValueError(f"einsum {equation!r}: '{labels}' does not fit shape {tensor.shape}")
        if tensor._dims is None and equation:
            tensor = raw_ops.EnsureShape(tensor, shape=TensorShape([None] * len(labels)))
        self.tensor = tensor
        self.labels = labels
        self.equation = equation

    def distinct(self) -> _Operand:
        """This operand with the diagonals of the labels that it has twice, as last dimensions."""
        twice = next((c for c in self.labels if self.labels.count(c) > 1), None)
        if twice is None:
            return self
        pair = [i for i, c in enumerate(self.labels) if c == twice][:2]
        rest = [i for i in range(len(self.labels)) if i not in pair]
        moved = raw_ops.Transpose(self.tensor, np.array(rest + pair, np.int32))
        labels = "".join(self.labels[i] for i in rest) + twice
        return _Operand(raw_ops.MatrixDiagPart(self._square(moved, twice)), labels,
                        self.equation).distinct()

    def _square(self, tensor: Tensor, label: str) -> Tensor:
        """`tensor`, whose last two dimensions must be equal: a step finds out where the graph does
        not know both."""
        rows, columns = tensor._dims[-2:] if tensor._dims is not None else (None, None)
        if rows is None or columns is None:
            shape = raw_ops.Shape(tensor)
            before = np.arange(len(self.labels) - 2, dtype=np.int32)
            last = np.full(2, len(self.labels) - 1, np.int32)
            return raw_ops.Reshape(tensor, raw_ops.Gather(shape, np.concatenate([before, last])))
        if rows != columns:
            raise ValueError(f"einsum {self.equation!r}: '{label}' has sizes {rows} and {columns}")
        return tensor

    def summed(self, wanted: set[str]) -> _Operand:
        """This operand summed over the labels that are not wanted."""
        gone = [i for i, c in enumerate(self.labels) if c not in wanted]
        if not gone:
            return self
        rest = "".join(c for c in self.labels if c in wanted)
        return _Operand(raw_ops.Sum(self.tensor, np.array(gone, np.int32)), rest)

    def transposed(self, labels: str) -> _Operand:
        """This operand with its dimensions in the order of `labels`."""
        if labels == self.labels:
            return self
        order = [self.labels.index(c) for c in labels]
        return _Operand(raw_ops.Transpose(self.tensor, np.array(order, np.int32)), labels)


class _Sizes:
    """The size of each label: a number where some input tells it, else computed at run time."""

    def __init__(self, operands: list[_Operand], equation: str) -> None:
        self._sizes: dict[str, Any] = {}
        for operand in operands:
            dims = operand.tensor._dims or (None,) * len(operand.labels)
            for label, size in zip(operand.labels, dims, strict=True):
                known = self._sizes.get(label)
                if isinstance(known, int) and size is not None and known != size:
                    raise ValueError(f"einsum {equation!r}: '{label}' has sizes {known} and "
                                     f"{size}")
                if size is not None:
                    self._sizes[label] = size
        self._operands = operands

    def _size(self, label: str) -> Any:
        if label not in self._sizes:
            operand = next(o for o in self._operands if label in o.labels)
            shape = raw_ops.Shape(operand.tensor)
            self._sizes[label] = raw_ops.Gather(shape, np.int32(operand.labels.index(label)))
        return self._sizes[label]

    def product(self, labels: str) -> Any:
        """The product of the sizes of `labels`."""
        sizes = [self._size(c) for c in labels]
        number = int(np.prod([s for s in sizes if isinstance(s, int)], dtype=np.int64))
        result: Any = number
        for size in sizes:
            if not isinstance(size, int):
                result = size if isinstance(result, int) and result == 1 else (
                    raw_ops.Mul(size, np.int32(result) if isinstance(result, int) else result))
        return result

    def shape(self, *groups: str) -> Any:
        """The shape with one dimension per group of labels."""
        dims = [self.product(g) for g in groups]
        if all(isinstance(d, int) for d in dims):
            return np.array(dims, np.int32)
        return raw_ops.Pack([np.int32(d) if isinstance(d, int) else d for d in dims], axis=0)


def _product(a: _Operand, b: _Operand, wanted: set[str], sizes: _Sizes) -> _Operand:
    """The product of two operands, summed over their common labels that are not wanted."""
    common = [c for c in a.labels if c in b.labels]
    batch = "".join(c for c in common if c in wanted)
    inner = "".join(c for c in common if c not in wanted)
    rows = "".join(c for c in a.labels if c not in common)
    columns = "".join(c for c in b.labels if c not in common)
    left = _grouped(a, (*batch, rows, inner), sizes)
    right = _grouped(b, (*batch, inner, columns), sizes)
    multiply = raw_ops.BatchMatMul if batch else raw_ops.MatMul
    result = batch + rows + columns
    product = multiply(left, right)
    if len(rows) != 1 or len(columns) != 1:
        product = raw_ops.Reshape(product, sizes.shape(*result) if result else
                                  np.zeros(0, np.int32))
    return _Operand(product, result)


def _grouped(x: _Operand, groups: tuple[str, ...], sizes: _Sizes) -> Tensor:
    """The tensor with one dimension per group of labels."""
    tensor = x.transposed("".join(groups)).tensor
    if all(len(g) == 1 for g in groups):
        return tensor
    return raw_ops.Reshape(tensor, sizes.shape(*groups))
