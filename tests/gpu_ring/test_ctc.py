"""The loss of connectionist temporal classification on the device: as on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_ring import nvrtc
from gpu_ring.cases import placing

import hpcflow as hf
from hpcflow.kernels.nn import device_ctc

STEPS, BATCH, CLASSES = 13, 5, 7


def labels(seed: int, version: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices and values of labels with repeated ones, and lengths of the sequences."""
    drawn = np.random.default_rng(seed)
    counts = drawn.integers(1, 6, BATCH) if version == 1 else [0, 1, 3, 5, 9]
    indices = np.array([(b, i) for b, n in enumerate(counts) for i in range(n)], np.int64)
    values = drawn.integers(version - 1, version + 2, len(indices)).astype(np.int32)
    lengths = drawn.integers(6, STEPS + 1, BATCH).astype(np.int32)
    lengths[-1] = STEPS
    return indices, values, lengths


def computed(gpus: int, version: int, seed: int, **attrs: bool) -> list[np.ndarray]:
    """Loss and gradient of logits that are fed; the labels are fed, too."""
    logits = 2 * np.random.default_rng(seed).standard_normal(
        (STEPS, BATCH, CLASSES)).astype(np.float32)
    indices, values, lengths = labels(seed, version)
    op = hf.raw_ops.CTCLoss if version == 1 else hf.raw_ops.CTCLossV2
    with hf.Graph().as_default(), placing() as placed:
        x, i, v, n = (hf.placeholder(a.dtype, a.shape) for a in (logits, indices, values, lengths))
        loss = op(inputs=x, labels_indices=i, labels_values=v, sequence_length=n, **attrs)[0]
        fetches = [loss, hf.gradients(hf.reduce_sum(loss * loss), x)[0]]
        config = hf.ConfigProto(device_count={"GPU": gpus})
        with hf.Session(config=config) as session:
            found = [session.run(fetches, {x: logits, i: indices, v: values, n: lengths})
                     for _ in range(4)]
    [where] = [device for type_, device in placed.values() if type_.startswith("CTC")]
    assert ("GPU" in where) == bool(gpus)
    for again in found[1:]:
        np.testing.assert_array_equal(again[0], found[0][0])
    return found[-1]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("attrs", [
    {}, {"ctc_merge_repeated": False}, {"preprocess_collapse_repeated": True},
    {"ignore_longer_outputs_than_inputs": True}])
def test_it_is_that_of_the_cpu(version: int, attrs: dict[str, bool]) -> None:
    for seed in range(3):
        with np.errstate(all="ignore"):
            pairs = [*zip(*(computed(gpus, version, seed, **attrs) for gpus in (0, 1)))]
        for mine, theirs in pairs:
            assert mine.dtype == theirs.dtype == np.float32
            np.testing.assert_allclose(theirs, mine, rtol=2e-5, atol=1e-5)


def test_errors_are_those_of_the_cpu() -> None:
    """They name the op and come at once."""
    said: list[str] = []
    for gpus in (0, 1):
        with hf.Graph().as_default():
            x = hf.placeholder(hf.float32, [3, 1, 4])
            v: Any = hf.placeholder(hf.int32, [None])
            indices = hf.stack([hf.zeros_like(v), hf.range(hf.size(v))], axis=1)
            loss = hf.raw_ops.CTCLoss(inputs=x, labels_indices=hf.cast(indices, hf.int64),
                                      labels_values=v, sequence_length=[3])[0]
            config = hf.ConfigProto(device_count={"GPU": gpus})
            with hf.Session(config=config) as session:
                for values in ([-1], [0] * 4, []):
                    with pytest.raises(hf.errors.InvalidArgumentError, match="CTCLoss") as caught:
                        session.run(loss, {x: np.zeros((3, 1, 4)), v: values})
                    said.append(str(caught.value).split(" (op")[0])
    assert said[:3] == said[3:]


@pytest.mark.parametrize("name", list(device_ctc.KERNELS))
def test_kernels_compile(name: str) -> None:
    for index in ("int", "long long"):
        assert not nvrtc.errors(device_ctc.KERNELS[name].text(index))
