"""Names of ``contrib.framework`` and ``contrib.deprecated`` that first programs call."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import deprecated, framework


def test_shapes_are_checked_now_or_when_run(session):
    x = hf.placeholder(hf.float32)
    checked = framework.with_shape([2, 3], x)
    assert checked.shape.as_list() == [2, 3]
    same = framework.with_same_shape(hf.placeholder_with_default(hf.ones([2, 3]), None), x)
    ones = np.ones((2, 3))
    np.testing.assert_array_equal(*session.run([checked, same], {x: ones}))
    for wrong in (checked, same):
        with pytest.raises(hf.errors.InvalidArgumentError, match="Wrong shape"):
            session.run(wrong, {x: np.ones((3, 2))})
    with pytest.raises(ValueError, match="Invalid shape"):
        framework.with_shape([2, 4], hf.ones([2, 3]))
    with pytest.raises(ValueError, match="Expected integer type"):
        framework.assert_scalar_int(hf.constant(1.0))
    with pytest.raises(ValueError, match="scalar"):
        framework.assert_scalar_int(hf.constant([1]))


def test_sums_variables_and_steps(session):
    total = framework.reduce_sum_n([hf.ones([2, 3]), hf.constant([1.0, 2.0])])
    variable = framework.global_variable([1.0, 2.0], name="kept")
    assert variable not in hf.trainable_variables() and variable in hf.global_variables()
    zeros = framework.zero_initializer(variable)
    session.run(variable.initializer)
    session.run(zeros)
    np.testing.assert_array_equal(session.run(variable), [0, 0])
    assert session.run(total) == 9
    step = framework.get_or_create_global_step()
    assert framework.assert_or_get_global_step() is step
    assert framework.assert_or_get_global_step(global_step_tensor=step) is step
    predictions, labels = framework.remove_squeezable_dimensions(hf.ones([4, 1]), hf.ones([4]))
    assert predictions.shape.as_list() == labels.shape.as_list() == [4]
    x = hf.placeholder(hf.float32)
    assert framework.get_placeholders(x.graph) == [x]
    assert framework.get_graph_from_inputs([x, total]) is x.graph


def test_summaries_keep_the_tags_that_are_given(session):
    deprecated.scalar_summary(["a/b", "c"], [1.0, 2.0])
    deprecated.histogram_summary("h", hf.range(5))
    deprecated.image_summary("i", hf.ones([1, 4, 4, 1]))
    deprecated.audio_summary("s", hf.zeros([1, 8]), 44.0)
    merged = deprecated.merge_all_summaries()
    found = hf.Summary.FromString(session.run(merged))
    assert [value.tag for value in found.value] == ["a/b", "c", "h", "i/image/0", "s/audio/0"]
    assert hf.contrib.deprecated.merge_all_summaries("none such") is None


def test_layers_in_a_scope_with_arguments_of_variables(session):
    slim = hf.contrib.slim
    with slim.arg_scope([slim.model_variable, slim.variable], device="/cpu:0"), \
            slim.arg_scope([slim.model_variable], trainable=False):
        slim.conv2d(hf.ones([1, 4, 4, 1]), 2, [3, 3], scope="c")
        slim.batch_norm(hf.ones([4, 2]), scope="b")
    assert {v.device for v in hf.global_variables()} == {"/device:CPU:0"}
    assert len(hf.trainable_variables()) == 3  # what a layer says counts
    with pytest.raises(TypeError, match="var_list"):
        hf.keras.optimizers.Nadam().minimize(hf.reduce_sum(hf.get_variable("v", [2])))
