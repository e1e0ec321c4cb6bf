"""Matrices of checkpoints in the order of another vocabulary, by the ops of 1.x."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.ops import gen_checkpoint_ops

OLD = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def path(tmp_path):
    with hf.Graph().as_default(), hf.Session() as session:
        hf.get_variable("w", initializer=OLD)
        session.run(hf.global_variables_initializer())
        return hf.train.Saver().save(session, str(tmp_path / "m"))


def remapped(path, rows, columns, values, num_rows=None, num_cols=None):
    with hf.Graph().as_default(), hf.Session() as session:
        matrix = gen_checkpoint_ops.load_and_remap_matrix(
            ckpt_path=[path], old_tensor_name="w", row_remapping=np.array(rows, np.int64),
            col_remapping=np.array(columns, np.int64), initializing_values=np.float32(values),
            num_rows=len(rows) if num_rows is None else num_rows,
            num_cols=num_cols or len(columns) or 3)
        assert matrix.shape == (len(rows) if num_rows is None else num_rows,
                                num_cols or len(columns) or 3)
        return session.run(matrix)


def test_rows_and_columns_come_in_the_new_order(path):
    np.testing.assert_array_equal(remapped(path, [2, 0], [], []), OLD[[2, 0]])
    np.testing.assert_array_equal(remapped(path, [3, 1], [2, 0], []), OLD[[3, 1]][:, [2, 0]])


def test_values_stand_where_nothing_is_old(path):
    np.testing.assert_array_equal(
        remapped(path, [2, -1, 0], [1, -1], [50, 51, 52, 53]), [[7, 50], [51, 52], [1, 53]])
    np.testing.assert_array_equal(remapped(path, [-1], [], [1, 2, 3]), [[1, 2, 3]])


@pytest.mark.parametrize(("rows", "columns", "values", "sizes", "error", "message"), [
    ([0, 0], [], [], {}, hf.errors.UnimplementedError, "row_remapping has an entry twice"),
    ([0], [1, 1], [], {}, hf.errors.UnimplementedError, "col_remapping has an entry twice"),
    ([9], [], [], {}, hf.errors.InvalidArgumentError, "entry 9, but there are 4"),
    ([0, -1], [], [1], {}, hf.errors.InvalidArgumentError, "must be 3, as many"),
    ([0], [], [], {"num_rows": 2}, hf.errors.InvalidArgumentError, "must have 2 entries"),
    ([0], [], [], {"num_cols": 2}, hf.errors.InvalidArgumentError, "num_cols is 2"),
])
def test_what_does_not_fit_is_refused(path, rows, columns, values, sizes, error, message):
    with pytest.raises(error, match=message):
        remapped(path, rows, columns, values, **sizes)


def test_vocabularies_say_the_order(path, tmp_path):
    (tmp_path / "old").write_text("a\nb\nc\nd\n")
    (tmp_path / "new").write_text("d\nx\nb\n")
    with hf.Graph().as_default(), hf.Session() as session:
        remapping, present = gen_checkpoint_ops.generate_vocab_remapping(
            new_vocab_file=str(tmp_path / "new"), old_vocab_file=str(tmp_path / "old"),
            new_vocab_offset=0, num_new_vocab=3)
        rows, count = session.run([remapping, present])
    assert rows.tolist() == [3, -1, 1] and count == 2
    np.testing.assert_array_equal(remapped(path, rows, [], [7, 7, 7]), [OLD[3], [7] * 3, OLD[1]])
