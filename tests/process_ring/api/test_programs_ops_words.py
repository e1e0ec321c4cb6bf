"""Names, errors and words of the 1.x API that programs and unit tests of operations rely on."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradient

import hpcflow as hf


@pytest.mark.parametrize("build", [hf.cumsum, hf.cumprod])
@pytest.mark.parametrize("axis", [-3, 2])
def test_a_wrong_axis_of_a_scan_is_an_error_of_the_step(build, axis):
    with hf.Graph().as_default(), hf.Session() as session:
        total = build(np.ones((2, 3), np.float32), axis)
        assert total.shape.as_list() == [2, 3]
        with pytest.raises(hf.errors.InvalidArgumentError, match="Expected scan axis in the range"):
            session.run(total)


@pytest.mark.parametrize(("on", "off"), [(1.0, 0), (1, 0.0), (True, 0)])
def test_one_hot_refuses_values_of_two_types(on, off):
    with hf.Graph().as_default(), pytest.raises(TypeError, match="does not match dtype"):
        hf.one_hot([1], 2, on_value=on, off_value=off)


def test_one_hot_with_a_dtype_converts_its_values():
    with hf.Graph().as_default(), hf.Session() as session:
        one = hf.one_hot([1], 2, on_value=1.0, off_value=0, dtype=hf.float64)
        assert one.dtype == hf.float64
        np.testing.assert_array_equal(session.run(one), [[0.0, 1.0]])


def test_names_of_composed_operations():
    with hf.Graph().as_default():
        assert hf.lbeta([1.0, 2.0]).name == "lbeta/sub:0"
        assert [t.name for t in hf.meshgrid([1, 2], [3])] == ["meshgrid/mul:0", "meshgrid/mul_1:0"]
        assert hf.matrix_transpose([[1, 2]]).name == "matrix_transpose/transpose:0"


def test_lists_of_tensors_name_their_parts_within_the_pack():
    with hf.Graph().as_default() as graph, hf.Session() as session:
        one = hf.constant(1)
        packed = hf.convert_to_tensor([[one, 2], [3, 4]])
        assert packed.name == "packed:0"
        assert [op.name for op in graph.get_operations()] == [
            "Const", "packed/0/1", "packed/0", "packed/1", "packed"]
        assert hf.convert_to_tensor([one, 2]).name == "packed_1:0"
        np.testing.assert_array_equal(session.run(packed), [[1, 2], [3, 4]])


def test_an_assigned_slice_is_named_after_the_slice():
    with hf.Graph().as_default(), hf.Session() as session:
        v = hf.Variable([1.0, 2.0, 3.0])
        part = v[1:]
        first, second = part.assign([5.0, 6.0]), part.assign([7.0, 8.0])
        assert first.name == "strided_slice/_assign:0"
        assert second.name == "strided_slice/_assign_1:0"
        session.run(hf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(second), [1.0, 7.0, 8.0])


def test_the_gradient_of_sign_is_zeros():
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.constant([-2.0, 0.0, 3.0])
        np.testing.assert_array_equal(session.run(hf.gradients(hf.sign(x), [x])[0]), [0, 0, 0])


def test_the_gradient_of_sign_agrees_with_finite_differences():
    with hf.Graph().as_default():
        check_gradient(hf.sign, np.array([[-2.0, 0.5], [3.0, -0.25]]))
