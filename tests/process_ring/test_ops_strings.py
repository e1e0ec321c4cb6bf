"""Ops on strings."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.graph.raw import raw_ops


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
