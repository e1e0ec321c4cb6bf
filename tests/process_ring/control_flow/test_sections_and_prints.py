"""What prints write, sections that contain themselves, and invariants as specifications."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

pytestmark = pytest.mark.usefixtures("graph")


def _written(session, tmp_path, *values, **options):
    path = tmp_path / "written.txt"
    session.run(hf.print(*values, output_stream=f"file://{path}", **options))
    return path.read_text()


def test_a_single_text_has_no_quotation_marks(session, tmp_path):
    assert _written(session, tmp_path, hf.constant("scalar"), end="<end>") == "scalar<end>"


def test_dicts_are_written_in_the_order_of_their_keys(session, tmp_path):
    text = _written(session, tmp_path, {"small": hf.constant(0.5), "Big": hf.constant([1, 2])}, 10)
    assert text == "{'Big': [1 2], 'small': 0.5} 10\n"


def test_sparse_tensors_are_written_by_parts(session, tmp_path):
    sparse = hf.SparseTensor([[0, 0], [1, 3]], [7, 9], [2, 4])
    part = "'SparseTensor(indices=[[0 0]\n [1 3]], values=[7 9], shape=[2 4])'"
    assert _written(session, tmp_path, [sparse]) == f"[{part}]\n"


def test_a_section_of_the_same_name_cannot_be_entered_from_inside():
    first, second = (hf.CriticalSection(shared_name="s") for _ in range(2))
    with pytest.raises(ValueError, match="directly access the CriticalSection"):
        first.execute(lambda: second.execute(lambda: hf.constant(1)))
    assert second.execute(lambda: 1.5).dtype is hf.float32


def test_invariants_as_specifications(session):
    specs = [hf.TensorSpec([], hf.int32), hf.TensorSpec([None], hf.int32)]
    _, rows = hf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, hf.concat([x, x], 0)),
                            [hf.constant(0), hf.constant([1])], specs)
    assert rows.shape.as_list() == [None]
    np.testing.assert_array_equal(session.run(rows), [1] * 8)


def test_sections_of_one_resource():
    first, second = hf.CriticalSection(), hf.CriticalSection()
    v = hf.get_variable("v", initializer=0.0, use_resource=True)
    w = hf.get_variable("w", initializer=0.0, use_resource=True)
    first.execute(lambda: v.assign_add(1.0))
    first.execute(lambda: v + 1.0)
    for exclusive in (True, False):
        with pytest.raises(ValueError, match="requested exclusive resource access"):
            second.execute(lambda: v.assign_add(1.0), exclusive_resource_access=exclusive)
    for section in (first, second):
        section.execute(lambda: w.assign_add(1.0), exclusive_resource_access=False)
    with pytest.raises(ValueError, match="requested exclusive resource access"):
        second.execute(lambda: w.assign_add(1.0))
