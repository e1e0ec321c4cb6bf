"""The assertions about containers, numbers and errors that the test cases of 1.x have besides
those of `unittest`."""

from __future__ import annotations

import contextlib
import unittest
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


class Assertions(unittest.TestCase):
    """A `unittest` case with more assertions; each fails with what is wrong, and with `msg`."""

    def assertLen(self, container: Sized, expected_len: int, msg: str | None = None) -> None:
        """Check how many elements `container` has."""
        if len(container) != expected_len:
            self.fail(self._formatMessage(
                msg, f"{container!r} has length of {len(container)}, expected {expected_len}."))

    def assertEmpty(self, container: Sized, msg: str | None = None) -> None:
        """Check that `container` has no elements."""
        if len(container):
            self.fail(self._formatMessage(msg, f"{container!r} has length of {len(container)}."))

    def assertNotEmpty(self, container: Sized, msg: str | None = None) -> None:
        """Check that `container` has elements."""
        if not len(container):
            self.fail(self._formatMessage(msg, f"{container!r} has length of 0."))

    def assertSequenceAlmostEqual(self, expected_seq: Sequence, actual_seq: Sequence,
                                  places: int | None = None, msg: str | None = None,
                                  delta: float | None = None) -> None:
        """Check that two sequences have elements that are almost equal."""
        self.assertLen(actual_seq, len(expected_seq), msg)
        for expected, actual in zip(expected_seq, actual_seq, strict=True):
            self.assertAlmostEqual(expected, actual, places, msg, delta)  # type: ignore[arg-type]

    def assertSameElements(self, expected_seq: Iterable, actual_seq: Iterable,
                           msg: str | None = None) -> None:
        """Check that two iterables have the same elements, whatever their order and number."""
        expected, actual = list(expected_seq), list(actual_seq)
        missing = [x for x in expected if x not in actual]
        more = [x for x in actual if x not in expected]
        if missing or more:
            self.fail(self._formatMessage(msg, f"missing: {missing!r}, unexpected: {more!r}"))

    def assertContainsSubset(self, expected_subset: Iterable, actual_set: Container,
                             msg: str | None = None) -> None:
        """Check that all of `expected_subset` are in `actual_set`."""
        missing = [x for x in expected_subset if x not in actual_set]
        if missing:
            self.fail(self._formatMessage(msg, f"Missing elements {missing!r}"))

    def assertNoCommonElements(self, expected_seq: Iterable, actual_seq: Container,
                               msg: str | None = None) -> None:
        """Check that two containers share no element."""
        common = [x for x in expected_seq if x in actual_seq]
        if common:
            self.fail(self._formatMessage(msg, f"Common elements {common!r}"))

    def assertContainsInOrder(self, strings: Sequence[str], target: str,
                              msg: str | None = None) -> None:
        """Check that `strings` are in the text `target`, one after the other."""
        position = 0
        for text in [strings] if isinstance(strings, str) else strings:
            found = target.find(text, position)
            if found < 0:
                self.fail(self._formatMessage(msg, f"Did not find '{text}' after position "
                                                   f"{position} of '{target}'"))
            position = found + len(text)

    def assertContainsSubsequence(self, container: Iterable, subsequence: Sequence,
                                  msg: str | None = None) -> None:
        """Check that `container` has the elements of `subsequence` in this order, with others
        between them or not."""
        left = iter(container)
        if not all(x in left for x in subsequence):
            self.fail(self._formatMessage(msg, f"{subsequence!r} not a subsequence of "
                                               f"{container!r}."))

    def assertContainsExactSubsequence(self, container: Sequence, subsequence: Sequence,
                                       msg: str | None = None) -> None:
        """Check that `container` has the elements of `subsequence` one directly after the other."""
        items, wanted = list(container), list(subsequence)
        if not any(items[n:n + len(wanted)] == wanted
                   for n in range(len(items) - len(wanted) + 1)):
            self.fail(self._formatMessage(msg, f"{wanted!r} not in {items!r}"))

    def assertTotallyOrdered(self, *groups: Iterable, msg: str | None = None) -> None:
        """Check that elements of a group are equal, and less than those of the next groups."""
        for number, group in enumerate(groups):
            members = list(group)
            for a in members:
                for b in members:
                    self.assertTrue(a == b and a <= b and a >= b and not a < b, msg)
                for b in (b for later in groups[number + 1:] for b in later):
                    self.assertTrue(a < b and b > a and a != b and not b <= a, msg)

    def assertBetween(self, value: TensorLike, minv: Any, maxv: Any,
                      msg: str | None = None) -> None:
        """Check that `minv` <= `value` <= `maxv`."""
        if not minv <= value <= maxv:
            self.fail(self._formatMessage(
                msg, f'"{value!r}" unexpectedly not between "{minv!r}" and "{maxv!r}"'))

    def assertEndsWith(self, actual: str, expected_end: str, msg: str | None = None) -> None:
        """Check how a text ends."""
        if not actual.endswith(expected_end):
            self.fail(self._formatMessage(msg, f"{actual!r} does not end with {expected_end!r}"))

    def assertSameStructure(self, a: TensorLike, b: TensorLike, aname: str = "a", bname: str = "b",
                            msg: str | None = None) -> None:
        """Check that nests of dicts, lists and values are equal; says where they are not."""
        problems = list(_differences(a, b, aname))
        if problems:
            self.fail(self._formatMessage(msg, f"{aname} and {bname} differ: "
                                               + "; ".join(problems[:10])))

    @contextlib.contextmanager
    def _raising(self, expected: Any, check: Any) -> Iterator[None]:
        with self.assertRaises(expected) as raised:
            yield
        check(raised.exception)

    def assertRaisesWithLiteralMatch(self, expected_exception: Any, expected_exception_message: str,
                                     callable_obj: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Check that a call, or a block, raises an exception whose text is the one given."""
        context = self._raising(expected_exception, lambda error: self.assertEqual(
            str(error), expected_exception_message))
        if callable_obj is None:
            return context
        with context:
            callable_obj(*args, **kwargs)
        return None


def _differences(a: TensorLike, b: TensorLike, path: str) -> Iterator[str]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in {**a, **b}:
            if key in a and key in b:
                yield from _differences(a[key], b[key], f"{path}[{key!r}]")
            else:
                yield f"{path}[{key!r}] is in one of the two only"
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            yield f"{path} has length {len(a)}, not {len(b)}"
        for n, (x, y) in enumerate(zip(a, b)):
            yield from _differences(x, y, f"{path}[{n}]")
    elif a != b:
        yield f"{path} is {a!r}, not {b!r}"
