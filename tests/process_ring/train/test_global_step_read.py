"""The value of the global step before a step changes it."""

from __future__ import annotations

import pytest

import hpcflow as hf
from hpcflow.optimizers.global_step import increment_global_step
from hpcflow.python.training import training_util


@pytest.mark.parametrize("resource", [False, True])
def test_global_step_is_read_before_it_is_incremented(resource):
    with hf.Graph().as_default(), hf.variable_scope("", use_resource=resource):
        assert training_util._get_or_create_global_step_read() is None
        with pytest.raises(ValueError, match="create_global_step"):
            increment_global_step(1)
        step = hf.train.get_or_create_global_step()
        read = training_util._get_or_create_global_step_read()
        assert training_util._get_or_create_global_step_read() is read
        more = training_util._increment_global_step(3)
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            assert session.run([read, more]) == [0, 3]
            assert session.run([more, read]) == [6, 3]
            assert session.run(step) == 6
