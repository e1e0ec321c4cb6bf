"""Values that are kept in host memory on a GPU, and those that go there and back."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import config


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels leave values where they are registered to."""
    monkeypatch.setattr(config.flags, "check_stages", True)


def test_counts_of_a_loop_stay_on_their_side() -> None:
    """The gradient pushes indices and predicates, which are on the host, on stacks."""
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder(hf.float32, [3])

        def body(i: hf.Tensor, total: hf.Tensor) -> tuple[hf.Tensor, hf.Tensor]:
            return i + 1, hf.cond(i < 2, lambda: total * x[i], lambda: total + x[i])

        total = hf.while_loop(lambda i, _: i < 3, body, [0, hf.constant(1.0)])[1]
        gradient = session.run(hf.gradients(total, x)[0], {x: [2.0, 5.0, 7.0]})
    np.testing.assert_array_equal(gradient, [5.0, 2.0, 1.0])
