"""Iterators over data sets in scopes of GPUs."""

from __future__ import annotations

import pytest

import hpcflow as hf


@pytest.mark.parametrize("scope", ["of the element", "of the iterator", "of both"])
def test_elements_are_taken_in_the_scope_of_a_gpu(scope):
    with hf.Graph().as_default():
        dataset = hf.data.Dataset.range(1, 5).map(lambda x: hf.to_float(x))
        with hf.device(None if scope == "of the element" else "/gpu:0"):
            iterator = hf.data.make_initializable_iterator(dataset)
        with hf.device(None if scope == "of the iterator" else "/gpu:0"):
            doubled = iterator.get_next() * 2.0
        with hf.Session() as session:
            session.run(iterator.initializer)
            assert [session.run(doubled) for _ in range(4)] == [2.0, 4.0, 6.0, 8.0]
