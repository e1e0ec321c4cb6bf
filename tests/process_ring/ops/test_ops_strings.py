"""Ops on strings."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.graph.raw import raw_ops

# Buckets of the strings in test_hash_buckets, as the reference runtime gives them.
FAST = [291400, 113437, 533136, 497363, 377723, 76057, 53538, 958584]
STRONG = [922379, 987283, 100771, 782840, 279402, 282648, 877111, 268409]
PLAIN = [789371, 696260, 168816, 546981, 598820, 890086, 448170, 398039]


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        yield session


def test_joining(session):
    joined = hf.string_join(["a", [["b", "c"]], [["d", "e"]]], separator="-")
    assert joined.shape.as_list() == [1, 2]
    assert session.run(joined).tolist() == [[b"a-b-d", b"a-c-e"]]
    scalar = hf.string_join([b"\xff", "x"])
    assert scalar.shape.as_list() == []
    assert session.run(scalar) == b"\xffx"
    assert session.run(hf.string_join([np.zeros((0, 2), object), "x"])).shape == (0, 2)


def test_joining_of_shapes_that_differ(session):
    with pytest.raises(ValueError, match=r"\[2\].*\[3\]"):
        hf.string_join([["a", "b"], ["c", "d", "e"]])
    fed = hf.placeholder(hf.string)
    joined = hf.string_join([fed, ["c", "d"]])
    assert joined.shape.ndims is None
    assert session.run(joined, {fed: "a"}).tolist() == [b"ac", b"ad"]
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"do not match: \[3\], \[2\]"):
        session.run(joined, {fed: ["x", "y", "z"]})


def test_matching(session):
    match = raw_ops.StaticRegexFullMatch(input=["s3://x", "/s3://", ""], pattern="^s3://.*")
    assert session.run(match).tolist() == [True, False, False]
    assert session.run(raw_ops.StaticRegexFullMatch(input="ab", pattern="a.")) == np.True_


def value(session, op, *args, **kwargs):
    return session.run(op(*args, **kwargs))


def test_joining_along_dimensions(session):
    text = [["a", "b"], ["c", "d"]]
    for axes, expected in ((0, [b"ac", b"bd"]), ([1], [b"ab", b"cd"]), ([0, 1], b"acbd"),
                           ([1, 0], b"abcd"), ([], [[b"a", b"b"], [b"c", b"d"]]),
                           (None, b"abcd")):
        joined = hf.reduce_join(text, axes)
        assert np.asarray(session.run(joined)).tolist() == expected
    kept = hf.reduce_join(text, -1, keep_dims=True, separator="-")
    assert kept.shape.as_list() == [2, 1] and session.run(kept).tolist() == [[b"a-b"], [b"c-d"]]
    fed = hf.placeholder(hf.string)
    assert session.run(hf.reduce_join(fed), {fed: text}) == b"abcd"
    with pytest.raises(ValueError, match="Invalid reduction dimension 2"):
        hf.reduce_join(text, 2)
    with pytest.raises(ValueError, match="both"):
        hf.reduce_join(text, 0, reduction_indices=1)
    with pytest.raises(hf.errors.InvalidArgumentError, match="Duplicate"):
        session.run(hf.reduce_join(text, [0, -2]))


def test_numbers_as_strings(session):
    assert value(session, hf.as_string, [1, -20], width=5).tolist() == [b"    1", b"  -20"]
    assert value(session, hf.as_string, [1.5, np.inf], width=8, fill="0").tolist() == [
        b"1.500000", b"     inf"]
    assert value(session, hf.as_string, 3.14159265, precision=2) == b"3.14"
    assert value(session, hf.as_string, [True, False]).tolist() == [b"true", b"false"]
    assert value(session, hf.as_string, 1 + 2j * np.complex64(1), shortest=True) == b"(1,2)"
    for wrong in ({"fill": "x"}, {"precision": 1}, {"scientific": True, "shortest": True}):
        with pytest.raises(hf.errors.InvalidArgumentError):
            value(session, hf.as_string, [1], **wrong)


def test_strings_as_numbers(session):
    assert value(session, hf.string_to_number, [" 1.5 ", "-Inf", "0x10"]).tolist() == [
        1.5, -np.inf, 16.0]
    number = hf.string_to_number("2147483647", hf.int32)
    assert number.dtype == hf.int32 and session.run(number) == 2**31 - 1
    for wrong in ("", "1_0", "2147483648", "1.5", "\uff11"):
        with pytest.raises(hf.errors.InvalidArgumentError, match="convert string"):
            value(session, hf.string_to_number, [wrong], hf.int32)


def test_parts_of_strings(session):
    assert value(session, hf.substr, ["hello", "abc"], [1, 0], [2, 9]).tolist() == [b"el", b"abc"]
    cut = hf.substr([["abc"], ["xyz"]], [0, 1, 2], [1, 1, 1])
    assert cut.shape.as_list() == [2, 3]
    assert session.run(cut).tolist() == [[b"a", b"b", b"c"], [b"x", b"y", b"z"]]
    with pytest.raises(hf.errors.InvalidArgumentError, match="pos 6 out of range"):
        value(session, hf.substr, "hello", 6, 1)
    with pytest.raises(ValueError, match="rank"):
        hf.substr("hello", [1], 1)


def test_base64(session):
    data = [b"\xff\xfe\xfd\xfc", b"", b"a"]
    assert value(session, hf.encode_base64, data).tolist() == [b"__79_A", b"", b"YQ"]
    assert value(session, hf.encode_base64, data, pad=True).tolist() == [b"__79_A==", b"", b"YQ=="]
    for pad in (False, True):
        assert value(session, hf.decode_base64, hf.encode_base64(data, pad)).tolist() == data
    for wrong in ("Y", "YQ=", "//79/A", "Y Q"):
        with pytest.raises(hf.errors.InvalidArgumentError):
            value(session, hf.decode_base64, wrong)


def test_hash_buckets(session):
    """Buckets that programs have stored: they must never change."""
    words = ["a", "b", "c", "hello", "", "x" * 30, "y" * 60, "z" * 200]
    buckets = 1000003
    assert value(session, hf.string_to_hash_bucket_fast, words, buckets).tolist() == FAST
    assert value(session, hf.string_to_hash_bucket_strong, words, buckets, [7, -9]).tolist() == (
        STRONG)
    assert value(session, hf.string_to_hash_bucket, words, buckets).tolist() == PLAIN
    assert value(session, hf.string_to_hash_bucket_fast, "a", 10) == 9
    with pytest.raises(hf.errors.InvalidArgumentError, match="2 elements"):
        value(session, hf.string_to_hash_bucket_strong, words, 5, [1])


def test_empty_constants_of_different_shapes_stay_apart(session):
    empty = [hf.constant(np.empty(shape, object), hf.string) for shape in ((0,), (0, 1, 2))]
    assert [v.shape for v in session.run([hf.identity(e) for e in empty])] == [(0,), (0, 1, 2)]


@pytest.mark.parametrize("position, length, expected", [
    (0, 2, "hé"), (1, 2, "éß"), (-2, 5, "ß😊"), (4, 3, ""), (2, -1, "ß😊")])
def test_parts_in_characters(position, length, expected):
    with hf.Graph().as_default(), hf.Session() as session:
        part = hf.substr("héß😊", position, length, unit="UTF8_CHAR")
        assert session.run(part).decode() == expected
        with pytest.raises(hf.errors.InvalidArgumentError, match="out of range"):
            session.run(hf.substr("héß😊", 5, 1, unit="UTF8_CHAR"))


def test_the_later_name_of_kept_dimensions():
    with hf.Graph().as_default(), hf.Session() as session:
        assert session.run(hf.reduce_join([["a", "b"]], 1, keepdims=True)).tolist() == [[b"ab"]]
