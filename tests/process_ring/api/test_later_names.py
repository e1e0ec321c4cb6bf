"""Names of later 1.x releases and of contrib."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpcflow as hf


@pytest.fixture(autouse=True)
def _graph() -> Any:
    with hf.Graph().as_default():
        yield


def _value(x: Any, feeds: Any = None) -> Any:
    with hf.Session() as session:
        return session.run(x, feeds)


# ---------------------------------------------------------------- critical sections


def test_what_is_in_a_section_runs_alone() -> None:
    section, v = hf.CriticalSection(), hf.Variable(0)

    def count() -> Any:
        before = v.read_value()
        with hf.control_dependencies([before]):
            waited = hf.py_func(lambda x: x, [before], hf.int32)
        return hf.identity(v.assign(waited + 1))

    step = section.execute(count)
    with hf.Session() as session:
        session.run(v.initializer)
        threads = [threading.Thread(target=lambda: [session.run(step) for _ in range(20)])
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.run(v) == 80
    with pytest.raises(ValueError, match="deadlock"):
        section.execute(lambda: section.execute(count))
    nested = section.execute(lambda: {"a": hf.constant(1), "b": [hf.constant(2)]})
    assert _value(nested) == {"a": 1, "b": [2]}


# ---------------------------------------------------------------- images


def test_rotations_and_translations() -> None:
    image = np.arange(12, dtype=np.float32).reshape(3, 4)
    rotate, translate = hf.contrib.image.rotate, hf.contrib.image.translate
    np.testing.assert_array_equal(_value(rotate(image, np.pi)), image[::-1, ::-1])
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    np.testing.assert_array_equal(_value(rotate(square, np.pi / 2)), np.rot90(square))
    moved = _value(translate(np.stack([square, square])[..., None], [[1.0, 0.0], [0.0, -1.0]]))
    np.testing.assert_array_equal(moved[0, :, :, 0], np.pad(square, ((0, 0), (1, 0)))[:, :-1])
    np.testing.assert_array_equal(moved[1, :, :, 0], np.pad(square, ((0, 1), (0, 0)))[1:])


def test_transforms_compose_and_have_gradients() -> None:
    module = hf.contrib.image
    one = module.angles_to_projective_transforms([0.3, -0.2], 5.0, 4.0)
    other = module.translations_to_projective_transforms([[1.0, 2.0], [0.0, 1.0]])
    product = module.compose_transforms(one, other)
    first, second, both = _value([module.flat_transforms_to_matrices(t)
                                  for t in (one, other, product)])
    np.testing.assert_allclose(first @ second, both, rtol=1e-5, atol=1e-5)
    images = hf.constant(np.random.default_rng(0).normal(size=(2, 5, 4, 1)).astype(np.float32))
    matrices = module.flat_transforms_to_matrices(one)
    back = module.matrices_to_flat_transforms(hf.matrix_inverse(matrices))
    slope = hf.gradients(module.transform(images, one, "BILINEAR"), images, images)[0]
    found, right = _value([slope, module.transform(images, back, "BILINEAR")])
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)  # as in 1.x
    with pytest.raises(ValueError, match="NEAREST or BILINEAR"):
        module.transform(images, one, "CUBIC")


# ---------------------------------------------------------------- the rest


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = np.random.default_rng(0).normal(size=20000).astype(np.float32)
    dropped = _value(hf.contrib.nn.alpha_dropout(x, 0.8, seed=1))
    assert abs(dropped.mean()) < 0.03 and abs(dropped.std() - 1) < 0.03
    _, counts = np.unique(dropped, return_counts=True)
    assert 0.18 < counts.max() / x.size < 0.22
    soft = _value(hf.contrib.nn.scaled_softplus([1.0, 9.0], 2.0, clip=8.0))
    np.testing.assert_allclose(soft, [2 * np.log1p(np.exp(0.5)), 8.0], rtol=1e-6)


def test_stateless_numbers() -> None:
    module = hf.contrib.stateless
    for draw in (module.stateless_random_uniform, module.stateless_random_normal,
                 module.stateless_truncated_normal):
        a, b = _value([draw([3], [1, 2]), draw([3], [1, 2])])
        np.testing.assert_array_equal(a, b)


def test_functions_of_values_with_numpy() -> None:
    y = hf.py_function(lambda a, b: a.numpy() + b, [hf.constant([1.0, 2.0]), hf.constant(3.0)],
                       hf.float32)
    assert _value(y).tolist() == [4.0, 5.0]


def test_specifications_of_tensors() -> None:
    spec = hf.TensorSpec([None, 3], hf.int32, "x")
    assert spec.is_compatible_with(hf.zeros([2, 3], hf.int32))
    assert not spec.is_compatible_with(hf.zeros([2, 3]))
    assert spec == hf.TensorSpec((None, 3), "int32", "x") and len({spec, spec}) == 1
    assert hf.TensorSpec.from_tensor(hf.zeros([4], name="z")).name == "z"


def test_loggers_and_modes() -> None:
    assert isinstance(hf.get_logger(), logging.Logger)
    with pytest.raises(hf.errors.UnimplementedError, match="eager"):
        hf.enable_eager_execution()


def test_libraries_of_ops(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "from hpcflow.extending import kernel, register_op\n"
        "register_op('TripleOfLibrary', 'x: T', 'y: T', 'T: {float}')\n"
        "@kernel('TripleOfLibrary')\n"
        "def _triple(node):\n    return lambda x: 3 * x\n")
    module = hf.load_op_library(str(path))
    assert _value(module.triple_of_library(hf.constant([2.0]))).tolist() == [6.0]
    compiled = tmp_path / "own.so"
    compiled.write_bytes(b"")
    with pytest.raises(hf.errors.UnimplementedError, match="another runtime"):
        hf.load_op_library(str(compiled))
    with pytest.raises(hf.errors.NotFoundError, match="No such file"):
        hf.load_op_library(str(tmp_path / "missing.so"))
    with pytest.raises(hf.errors.UnimplementedError, match="file systems"):
        hf.load_file_system_library(str(compiled))
