"""Recurrent networks as one op on the device: by cuDNN, or what stands in for it, and without."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from ctypes import byref, c_double
from typing import Any

import numpy as np
import pytest
from gpu_ring.cases import placing
from gpu_ring.cudnn_library import served, wheel_file
from gpu_ring.fake_cudnn import FakeCudnn

import hpcflow as hf
from hpcflow import config, raw_ops
from hpcflow.contrib.cudnn_rnn import operations
from hpcflow.kernels.cudnn import library, recurrent
from hpcflow.kernels.cudnn.convolution import math_type

STEPS, ROWS, SIZE, UNITS = 4, 3, 5, 6
LENGTHS = np.array([4, 1, 3], np.int32)
MODES = tuple(operations.PER_LAYER)
TOLERANCE = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-10}


@pytest.fixture(params=["library", "plain"])
def cudnn(request: pytest.FixtureRequest,
          monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCudnn | None]:
    """The stand-in for the library; None where it is the real one, or none is used."""
    if request.param == "plain":
        monkeypatch.setattr(config.flags, "cudnn", "0")
    fake = served(monkeypatch) if request.param == "library" else None
    recurrent._refused.clear()
    yield fake
    recurrent._refused.clear()


def network(gpus: int, dtype: str, layers: int, runs: int = 1, **attrs: Any) -> list[np.ndarray]:
    """The output, the states, the reserve's emptiness left out, and all gradients, computed on a
    device; `lengths` make it the third version of the op."""
    lengths, said = attrs.pop("lengths", None), {"rnn_mode": "lstm", **attrs}
    sides = layers * (2 if said.get("direction") == "bidirectional" else 1)
    random = np.random.default_rng(5)
    outputs = said.get("num_proj") or UNITS
    with hf.Graph().as_default():
        count = int(_count(layers, said))
        x, h, c, params = (hf.constant(0.6 * random.standard_normal(dims), dtype) for dims in (
            (STEPS, ROWS, SIZE), (sides, ROWS, outputs), (sides, ROWS, UNITS), (count,)))
        given = {"input": x, "input_h": h, "input_c": c, "params": params, **said}
        if lengths is None:
            found = raw_ops.CudnnRNN(**given)
        else:
            found = raw_ops.CudnnRNNV3(sequence_lengths=lengths, **given)
        ends = list(found)[: 3 if said["rnn_mode"] == "lstm" else 2]
        ones = [e * e for e in ends]
        by = [x, h, params, *[c] * (len(ends) == 3)]
        fetches = [*ends, *hf.gradients(ones, by), *hf.gradients(ends[0], [x, params])]
        with placing() as placed, hf.Session(config=hf.ConfigProto(
                device_count={"GPU": gpus})) as session:
            values = [session.run(fetches) for _ in range(runs)][-1]
        kinds = {kind for kind, device in placed.values() if "GPU" in device}
        assert ("CudnnRNN" in " ".join(kinds)) == bool(gpus)
    return values


def _count(layers: int, said: dict[str, Any]) -> int:
    more = {k: v for k, v in said.items() if k in ("direction", "num_proj", "input_mode")}
    size = operations.cudnn_rnn_opaque_params_size(said["rnn_mode"], layers, UNITS, SIZE, **more)
    with hf.Session(config=hf.ConfigProto(device_count={"GPU": 0})) as session:
        return session.run(size)


def agree(dtype: str = "float32", layers: int = 2, **attrs: Any) -> None:
    """The device computes what the CPU does."""
    build = functools.partial(network, dtype=dtype, layers=layers, **attrs)
    for ours, theirs in zip(build(1), build(0), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), rtol=0,
                                   atol=TOLERANCE[dtype] * max(1.0, np.abs(theirs).max()))


#: What to compute in each of these forms.
FORMS: dict[str, dict[str, Any]] = {
    **{mode: {"rnn_mode": mode, "direction": "bidirectional"} for mode in MODES},
    "float64 with lengths": {"dtype": "float64", "lengths": LENGTHS},
    "float16": {"dtype": "float16"},
    "projected": {"num_proj": 4, "lengths": np.full(ROWS, STEPS, np.int32)},
    "projected with lengths": {"num_proj": 4, "lengths": LENGTHS, "direction": "bidirectional"},
}


@pytest.mark.parametrize("form", FORMS)
def test_the_device_computes_what_the_cpu_does(form: str, cudnn: FakeCudnn | None) -> None:
    agree(**FORMS[form])
    assert cudnn is None or {"RNNForward", "RNNBackwardData_v8", "RNNBackwardWeights_v8"} <= {
        *cudnn.calls}


def test_batches_with_an_empty_row(cudnn: FakeCudnn | None) -> None:
    agree(lengths=np.array([4, 0, 3], np.int32), rnn_mode="gru")
    assert cudnn is None or "RNNForward" not in cudnn.calls


def test_parameters_that_lie_elsewhere_are_copied(cudnn: FakeCudnn | None) -> None:
    if cudnn is None:
        pytest.skip("the library has its own places")
    cudnn.gap = 3
    agree(direction="bidirectional")
    agree(rnn_mode="gru", layers=1)


def test_what_the_library_refuses_is_computed(cudnn: FakeCudnn | None) -> None:
    if cudnn is None:
        pytest.skip("the library does not refuse this")
    cudnn.refused.add("RNNForward")
    agree(rnn_mode="rnn_relu")
    assert "RNNBackwardData_v8" not in cudnn.calls


def check_dropout() -> None:
    """Zeros in the output, what makes up for them, and the gradients of both."""
    with hf.Graph().as_default():
        params = np.zeros(4 * UNITS * (UNITS + 1), np.float32)
        one = hf.constant(np.ones((3, 64, UNITS), np.float32))
        size = UNITS * UNITS
        for layer in range(2):  # relu(x): the input by the unit matrix, nothing of the state
            params[2 * layer * size :][:size] = np.eye(UNITS).reshape(-1)
        state = hf.constant(np.zeros((2, 64, UNITS), np.float32))
        output, _ = operations.cudnn_rnn_relu(one, state, params, True, dropout=0.25, seed=3)
        grad = hf.gradients(output, one)[0]
        with hf.Session() as session:
            values, by = session.run([output, grad])
            again = session.run(output)
    kinds = np.unique(values)
    np.testing.assert_allclose(kinds, [0, 1 / 0.75], rtol=1e-6)
    assert 0.6 < (values > 0).mean() < 0.9 and not np.array_equal(values, again)
    np.testing.assert_allclose(by, values, rtol=1e-6)


def test_dropout_between_layers(cudnn: FakeCudnn | None) -> None:
    check_dropout()
    assert cudnn is None or "RNNForward" in cudnn.calls


def test_steps_of_a_training_wait_once(cudnn: FakeCudnn | None, stand_in_only: None) -> None:
    """A layer, its gradients and updates: nothing waits for the device but the fetch."""
    with hf.Graph().as_default():
        x = hf.placeholder(hf.float32, [STEPS, ROWS, SIZE])
        net = hf.contrib.cudnn_rnn.CudnnLSTM(2, UNITS, seed=1)
        loss = hf.reduce_mean(hf.square(net(x)[0]))
        train = hf.train.GradientDescentOptimizer(0.1).minimize(loss)
        feed = {x: np.ones((STEPS, ROWS, SIZE), np.float32)}
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            losses = [session.run([loss, train], feed)[0] for _ in range(4)]
            gpu = next(d for d in session._engine.task.devices if d.type == "GPU")
            before = gpu.syncs
            losses.append(session.run([loss, train], feed)[0])
            assert gpu.syncs - before == 1
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize(("mode", "outputs"), [*[(m, UNITS) for m in MODES], ("lstm", 4)])
def test_descriptors_without_a_driver(mode: str, outputs: int) -> None:
    """The library takes what is said of networks and sequences, and no nonsense."""
    lib = library.opened(str(wheel_file("libcudnn.so.9")))
    for dtype in (np.float16, np.float32, np.float64):
        kind, wide = library.TYPES[np.dtype(dtype)], library.DOUBLE if dtype is np.float64 else 0
        said = (0, recurrent._MODES[mode], 2, 1, 0, kind, wide, math_type(np.dtype(dtype)), SIZE,
                UNITS, outputs, 2, lib.create("Dropout"), 1)
        lib.create("RNN", ("SetRNNDescriptor_v8", *said))
        lib.create("RNNData", ("SetRNNDataDescriptor", kind, 0, STEPS, ROWS, SIZE,
                               library.ints(LENGTHS), byref(c_double(0))))
        recurrent._states(lib, (2, ROWS, outputs), np.dtype(dtype))
    with pytest.raises(library.CudnnError, match="SetRNNDataDescriptor failed"):
        lib.create("RNNData", ("SetRNNDataDescriptor", 0, 0, STEPS, ROWS, SIZE,
                               library.ints([9, 1, 1]), byref(c_double(0))))
