"""The assertions of ``test.TestCase`` that `unittest` does not have."""

import pytest

import hpcflow as hf


@pytest.fixture
def case():
    return hf.test.TestCase()


HOLDS = (
    ("assertLen", [1, 2], 2), ("assertEmpty", {}), ("assertNotEmpty", "a"),
    ("assertSequenceAlmostEqual", [1.0, 2.0], (1.0, 2.00000001)),
    ("assertSameElements", [1, 2, 2], [2, 1]), ("assertContainsSubset", {1}, [1, 2]),
    ("assertNoCommonElements", [1, 2], [3]), ("assertContainsInOrder", ["a", "b"], "xaxb"),
    ("assertContainsSubsequence", [1, 2, 3], [1, 3]),
    ("assertContainsExactSubsequence", [1, 2, 3], [2, 3]),
    ("assertTotallyOrdered", [1, 1.0], [2], [3]), ("assertBetween", 1, 1, 2),
    ("assertEndsWith", "name:0", ":0"),
    ("assertSameStructure", {"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}),
    ("assertAllEqual", [1], [1], "message"), ("assertAllClose", {"a": 1.0}, {"a": 1.0}, 0, 0),
)  # fmt: skip
FAILS = (
    ("assertLen", [1, 2], 3, "has length of 2, expected 3"), ("assertEmpty", [1], "length of 1"),
    ("assertNotEmpty", [], "length of 0"),
    ("assertSequenceAlmostEqual", [1.0], [1.1], "1.0 != 1.1"),
    ("assertSequenceAlmostEqual", [1.0], [1.0, 2.0], "length of 2"),
    ("assertSameElements", [1, 2], [1, 3], r"missing: \[2\], unexpected: \[3\]"),
    ("assertSameElements", [], [1], r"unexpected: \[1\]"),
    ("assertContainsSubset", [3], [1], r"Missing elements \[3\]"),
    ("assertNoCommonElements", [3], [3], r"Common elements \[3\]"),
    ("assertContainsInOrder", ["b", "a"], "ab", "Did not find 'a'"),
    ("assertContainsSubsequence", [1, 2, 3], [3, 1], "not a subsequence"),
    ("assertContainsExactSubsequence", [1, 2, 3], [1, 3], "not in"),
    ("assertTotallyOrdered", [2], [1], "not true"), ("assertBetween", 3, 1, 2, "not between"),
    ("assertEndsWith", "name", ":0", "does not end with"),
    ("assertSameStructure", {"a": [1]}, {"a": [2]}, r"a\['a'\]\[0\] is 1, not 2"),
    ("assertSameStructure", {"a": 1}, {}, "in one of the two only"),
)  # fmt: skip


@pytest.mark.parametrize("call", HOLDS, ids=lambda c: c[0])
def test_what_holds(case, call):
    name, *args = call
    getattr(case, name)(*args)


@pytest.mark.parametrize("call", FAILS, ids=lambda c: c[0])
def test_what_fails_says_why(case, call):
    name, *args, message = call
    with pytest.raises(AssertionError, match=message):
        getattr(case, name)(*args)


def test_texts_of_errors(case):
    def fails(text):
        raise ValueError(text)

    case.assertRaisesWithLiteralMatch(ValueError, "a+b", fails, "a+b")
    with pytest.raises(AssertionError), case.assertRaisesWithLiteralMatch(ValueError, "a"):
        fails("ab")


def test_the_message_is_in_the_failure(case):
    for name in ("assertAllEqual", "assertAllClose", "assertAllCloseAccordingToType"):
        with pytest.raises(AssertionError, match="of the second layer"):
            getattr(case, name)([1.0], [2.0], msg="of the second layer")
