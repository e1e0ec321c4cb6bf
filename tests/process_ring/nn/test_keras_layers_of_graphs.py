"""Layers of the graph API inside of models of Keras."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpcflow as tf


class _Net(tf.keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = tf.layers.Dense(2), tf.keras.layers.Dense(2)
        self.c = tf.keras.layers.Dense(2, name="dense_1_1")

    def call(self, x: Any) -> Any:
        return self.c(self.b(self.a(x)))


@pytest.mark.parametrize("by_name", [False, True])
def test_layers_of_one_name_in_files(by_name: bool, tmp_path: Path) -> None:
    """Numbers are counted together and begin at 1 here, at none there: as in 1.x, names meet."""
    pytest.importorskip("h5py")
    tf.keras.backend.clear_session()
    net, path = _Net(), str(tmp_path / "weights.h5")
    assert [layer.name for layer in net.layers] == ["dense_1", "dense_1", "dense_1_1"]
    net(tf.ones([1, 2]))
    values = [np.full(v.shape.as_list(), n, np.float32) for n, v in enumerate(net.weights)]
    net.set_weights(values)
    net.save_weights(path)
    net.set_weights([0 * v for v in values])
    net.load_weights(path, by_name=by_name)
    for found, value in zip(net.get_weights(), values, strict=True):
        np.testing.assert_array_equal(found, value)
