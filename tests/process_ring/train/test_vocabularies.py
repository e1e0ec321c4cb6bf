"""Variables that begin with the rows or columns of a checkpoint that belong to the same words."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import framework
from hpcflow.train.vocabularies import load_and_remap_matrix

OLD, NEW = ["apple", "banana", "guava"], ["guava", "kiwi", "apple"]


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


@pytest.fixture
def files(tmp_path):
    """A checkpoint with a 3 x 3 matrix "w" and a 3 x 1 column "b", and both vocabularies."""
    with hf.Graph().as_default():
        hf.get_variable("w", initializer=np.arange(9, dtype=np.float32).reshape(3, 3))
        hf.get_variable("b", initializer=np.array([[1], [2], [3]], np.float32))
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            checkpoint = hf.train.Saver().save(session, str(tmp_path / "model"))
    paths = []
    for name, words in (("old", OLD), ("new", NEW)):
        (tmp_path / name).write_text("".join(f"{word}\n" for word in words))
        paths.append(str(tmp_path / name))
    return checkpoint, *paths


def initialized(*values):
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        return session.run(list(values))


@pytest.mark.parametrize("parts", [1, 2])
def test_warm_start_of_rows_and_columns(files, parts):
    checkpoint, old, new = files
    cut = hf.fixed_size_partitioner(parts) if parts > 1 else None
    rows = hf.get_variable("w", [4, 3], partitioner=cut)
    columns = hf.get_variable("c", [3, 4], partitioner=cut)
    hf.train.warm_start(checkpoint, [".*"], {
        "w": hf.train.VocabInfo(new, 3, 1, old, backup_initializer=hf.ones_initializer()),
        "c": hf.train.VocabInfo(new, 3, 1, old, axis=1)}, {"c": "w"})
    got = initialized(hf.convert_to_tensor(rows), hf.convert_to_tensor(columns))
    np.testing.assert_array_equal(got[0], [[6, 7, 8], [1, 1, 1], [0, 1, 2], [1, 1, 1]])
    np.testing.assert_array_equal(got[1], [[2, 0, 0, 0], [5, 0, 3, 0], [8, 0, 6, 0]])


def test_only_some_words_of_the_old_vocabulary_and_only_named_variables(files):
    checkpoint, old, new = files
    w = hf.get_variable("w", [3, 3])
    b = hf.get_variable("b", [3, 1], initializer=hf.zeros_initializer())
    hf.train.warm_start(checkpoint, None, {"w": hf.train.VocabInfo(new, 3, 0, old, 1)}, {"b": "x"})
    got = initialized(w, b)
    np.testing.assert_array_equal(got[0], [[0, 0, 0], [0, 0, 0], [0, 1, 2]])
    np.testing.assert_array_equal(got[1], np.zeros([3, 1]))


def test_initializers_of_matrices_embeddings_and_biases(files):
    checkpoint, old, new = files
    sevens = hf.constant_initializer(7.0)
    matrix = load_and_remap_matrix(checkpoint, "w", 1, 2, 3, sevens, -1, old, new, old, new, 1, 1)
    embedding = hf.get_variable("e", [4, 3], initializer=framework.load_embedding_initializer(
        checkpoint, "w", 3, 3, old, new, num_oov_buckets=1, initializer=sevens))
    bias = hf.get_variable("bias", [3, 1],
                           initializer=framework.load_linear_multiclass_bias_initializer(
                               checkpoint, "b", 3, old, new))
    got = initialized(matrix, embedding, bias)
    np.testing.assert_array_equal(got[0], [[7, 7, 7, 7], [2, 7, 0, 7], [7, 7, 7, 7]])
    np.testing.assert_array_equal(got[1], [[6, 7, 8], [7, 7, 7], [0, 1, 2], [7, 7, 7]])
    np.testing.assert_array_equal(got[2], [[3], [0], [1]])


def test_what_does_not_fit_is_refused(files):
    checkpoint, old, new = files
    with pytest.raises(ValueError, match="none of this name"):
        load_and_remap_matrix(checkpoint, "v", 0, 3, 3, None)
    with pytest.raises(ValueError, match="belong together"):
        load_and_remap_matrix(checkpoint, "w", 0, 3, 3, None, new_row_vocab_file=new)
    with pytest.raises(ValueError, match="has 3 words, but 5 are used"):
        load_and_remap_matrix(checkpoint, "w", 0, 5, 3, None, -1, old, new)
    with pytest.raises(ValueError, match=r"shape \[3, 3\], in parts by rows, but \[4, 3\]"):
        hf.get_variable("x", [4, 3], initializer=framework.load_and_remap_matrix_initializer(
            checkpoint, "w", 3, 3))
    with pytest.raises(ValueError, match="var_name_to_vocab_info names"):
        hf.train.warm_start(checkpoint, var_name_to_vocab_info={
            "y": hf.train.VocabInfo(new, 3, 0, old)})
