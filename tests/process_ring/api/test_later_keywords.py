"""Names of arguments, and of functions of modules, as 1.15 has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpcflow as hf


def _value(x: Any) -> Any:
    with hf.Session() as session:
        return session.run(x)


def test_functions_of_sparse() -> None:
    sparse = hf.SparseTensor([[0, 1]], [5.0], [2, 3])
    assert _value(hf.sparse.to_dense(sparse, default_value=1.0)).tolist() == [[1, 5, 1], [1, 1, 1]]
    for multiply in (hf.sparse.matmul, hf.sparse.sparse_dense_matmul):
        assert _value(multiply(sparse, np.ones((3, 1), np.float32))).tolist() == [[5], [0]]


def test_files_by_the_names_of_io(tmp_path: Path) -> None:
    gfile, path = hf.io.gfile, str(tmp_path / "a")
    gfile.makedirs(path=path)
    assert gfile.exists(path=path) and gfile.isdir(path=path)
    with hf.gfile.GFile(f"{path}/x", "w") as file:
        file.write("text")
    gfile.copy(src=f"{path}/x", dst=f"{path}/y")
    gfile.rename(src=f"{path}/y", dst=f"{path}/z")
    assert gfile.listdir(path=path) == ["x", "z"] and len(gfile.glob(pattern=f"{path}/*")) == 2
    assert [files for _, _, files in gfile.walk(path, topdown=False)] == [["x", "z"]]
    gfile.remove(path=f"{path}/x")
    gfile.rmtree(path=path)
    with pytest.raises(hf.errors.NotFoundError):
        gfile.listdir(path=path)


def test_segments_whose_number_is_given() -> None:
    data, indices, ids = np.arange(6, dtype=np.float32).reshape(3, 2), [0, 2, 1], [0, 0, 2]
    for function, expected in ((hf.sparse_segment_sum, [[4, 6], [0, 0], [2, 3], [0, 0]]),
                               (hf.sparse_segment_mean, [[2, 3], [0, 0], [2, 3], [0, 0]]),
                               (hf.sparse_segment_sqrt_n, [[4 / 2**0.5, 6 / 2**0.5], [0, 0],
                                                           [2, 3], [0, 0]])):
        found = _value(function(data, indices, ids, num_segments=4))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_other_keywords(graph: hf.Graph, tmp_path: Path) -> None:
    images = hf.ones([1, 2, 2, 1])
    assert hf.image.resize_images(images, [3, 3], name="larger").op.name.startswith("larger/")
    x = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3)
    flat = hf.layers.flatten(x, data_format="channels_first")
    np.testing.assert_array_equal(_value(flat), x.transpose(0, 2, 3, 1).reshape(1, 12))
    assert hf.ensure_shape(x=hf.placeholder(hf.float32), shape=[2, None]).shape.as_list() == [
        2, None]
    drawn = hf.random.categorical([[0.1, 0.2]], 4, dtype=hf.int32, seed=1)
    assert drawn.dtype is hf.int32 and drawn.shape.as_list() == [1, 4]
    proto = hf.make_tensor_proto([1.0], shape=[3], allow_broadcast=True)
    assert hf.make_ndarray(proto).tolist() == [1, 1, 1]
    assert hf.debugging.assert_all_finite(hf.ones([2]), "finite").shape.as_list() == [2]
    v = hf.Variable(3.0, name="v")
    with hf.Session() as session:
        session.run(v.initializer)
        path = hf.train.Saver().save(session, str(tmp_path / "m"))
    assert hf.train.list_variables(ckpt_dir_or_file=path) == [("v", [])]
    assert hf.train.load_variable(ckpt_dir_or_file=str(tmp_path), name="v") == 3.0
