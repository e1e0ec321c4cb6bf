"""Networks as one op: against cells step by step, finite differences, and through checkpoints."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from gradcheck import check_gradient

import hpcflow as hf
from hpcflow import errors, raw_ops
from hpcflow.contrib import cudnn_rnn, rnn
from hpcflow.contrib.cudnn_rnn import models, operations

STEPS, ROWS, SIZE, UNITS = 5, 3, 2, 3
LENGTHS = np.array([5, 2, 0], np.int32)
LAYERS = {"lstm": cudnn_rnn.CudnnLSTM, "gru": cudnn_rnn.CudnnGRU,
          "rnn_tanh": cudnn_rnn.CudnnRNNTanh, "rnn_relu": cudnn_rnn.CudnnRNNRelu}
CELLS = {"lstm": cudnn_rnn.CudnnCompatibleLSTMCell, "gru": cudnn_rnn.CudnnCompatibleGRUCell,
         "rnn_tanh": rnn.BasicRNNCell, "rnn_relu": lambda n: rnn.BasicRNNCell(
             n, activation=hf.nn.relu)}
MODES = tuple(LAYERS)
DIRECTIONS = ("unidirectional", "bidirectional")


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def layer(mode: str, direction: str = "unidirectional", **more: Any) -> Any:
    """A layer of two with biases that count."""
    return LAYERS[mode](2, UNITS, direction=direction, bias_initializer=(
        hf.random_uniform_initializer(-0.5, 0.5, seed=3)), seed=7, name="net", **more)


def cells(mode: str, direction: str, x: Any, states: Any, lengths: Any) -> list:
    """Output and states of cells that run step by step; `states` of each layer and direction."""
    made = [CELLS[mode](UNITS) for _ in range(len(states))]
    if direction == "unidirectional":
        output, end = hf.nn.dynamic_rnn(rnn.MultiRNNCell(made), x, lengths, tuple(states),
                                        time_major=True)
        return [output, *end]
    output, forward, back = rnn.stack_bidirectional_dynamic_rnn(
        made[0::2], made[1::2], x, states[0::2], states[1::2], sequence_length=lengths,
        time_major=True)
    return [output, *itertools.chain(*zip(forward, back))]


def parts(state: Any) -> list:
    return [state.h, state.c] if isinstance(state, tuple) else [state]


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_cells_compute_the_same_from_a_checkpoint(mode: str, direction: str, lengths: Any,
                                                  tmp_path: Any) -> None:
    sides = 2 * (1 + DIRECTIONS.index(direction))
    x = normal(STEPS, ROWS, SIZE)
    given = [normal(sides, ROWS, UNITS, seed=i) for i in range(1 + (mode == "lstm"))]
    path = str(tmp_path / "saved")
    with hf.Graph().as_default(), hf.Session() as session:
        source = hf.constant(x)
        output, states = layer(mode, direction)(source, tuple(given), sequence_lengths=lengths)
        grad = hf.gradients([output * output, *states], source)
        session.run(hf.global_variables_initializer())
        found = session.run([output, *states, *grad])
        hf.train.Saver().save(session, path)
    with hf.Graph().as_default(), hf.Session() as session:
        source = hf.constant(x)
        states = [rnn.LSTMStateTuple(hf.constant(given[1][i]), hf.constant(given[0][i]))
                  if mode == "lstm" else hf.constant(given[0][i]) for i in range(sides)]
        with hf.variable_scope("net"):
            output, *ends = cells(mode, direction, source, states, lengths)
        ends = [hf.stack(one) for one in zip(*map(parts, ends))]
        grad = hf.gradients([output * output, *ends], source)
        hf.train.Saver().restore(session, path)
        expected = session.run([output, *ends, *grad])
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=3e-5 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("mode", MODES)
def test_a_layer_reads_what_cells_have_saved(mode: str, tmp_path: Any) -> None:
    x, path = normal(STEPS, ROWS, SIZE), str(tmp_path / "saved")
    zero = np.zeros((ROWS, UNITS), np.float32)
    state: Any = rnn.LSTMStateTuple(zero, zero) if mode == "lstm" else zero
    with hf.Graph().as_default(), hf.Session() as session, hf.variable_scope(
            "net", initializer=hf.random_uniform_initializer(-0.5, 0.5, seed=3)):
        output = cells(mode, "unidirectional", hf.constant(x), [state, state], None)[0]
        session.run(hf.global_variables_initializer())
        expected = session.run(output)
        hf.train.Saver().save(session, path)
    with hf.Graph().as_default(), hf.Session() as session:
        output, _ = layer(mode)(x)
        hf.train.Saver().restore(session, path)
        np.testing.assert_allclose(session.run(output), expected, rtol=0, atol=1e-5)


# ---------------------------------------------------------------- the ops


def vector(mode: str, **more: Any) -> tuple[np.ndarray, int]:
    """Random parameters of two layers, and the number of states."""
    model: dict[str, Any] = {"direction": "unidirectional", **more}
    size = model.pop("size", SIZE)
    with hf.Graph().as_default(), hf.Session() as session:
        count = session.run(operations.cudnn_rnn_opaque_params_size(mode, 2, UNITS, size, **model))
    sides = 4 if model["direction"] == "bidirectional" else 2
    return 0.5 * normal(count, seed=9, dtype=np.float64), sides


@pytest.mark.parametrize(("mode", "version"), [
    *[(mode, "") for mode in MODES], ("lstm", "V2"), ("gru", "V3")])
def test_gradients(mode: str, version: str) -> None:
    attrs = {"rnn_mode": mode, "direction": "bidirectional"}
    params, sides = vector(mode, direction="bidirectional")
    lengths = {"sequence_lengths": LENGTHS} if version == "V3" else {}

    def build(x: Any, h: Any, params: Any, c: Any = None) -> Any:
        c = hf.constant([], hf.float64) if c is None else c
        found = getattr(raw_ops, f"CudnnRNN{version}")(
            input=x, input_h=h, input_c=c, params=params, **lengths, **attrs)
        return list(found)[: 3 if mode == "lstm" else 2]

    states = [normal(sides, ROWS, UNITS, seed=i, dtype=np.float64) for i in (1, 2)]
    check_gradient(build, normal(STEPS, ROWS, SIZE, dtype=np.float64), states[0], params,
                   *states[1:] * (mode == "lstm"), second=False, forms=["static"])


@pytest.mark.parametrize("attrs", [
    {"num_proj": 2, "direction": "bidirectional"}, {"num_proj": 2, "time_major": False},
    {"input_mode": "skip_input"}, {"input_mode": "auto_select"}])
def test_gradients_of_further_forms(attrs: dict[str, Any]) -> None:
    model = {k: v for k, v in attrs.items() if k != "time_major"}
    size = UNITS if "input_mode" in attrs else SIZE
    params, sides = vector("lstm", size=size, **model)
    steps_first = attrs.get("time_major", True)
    lengths = LENGTHS if steps_first else np.array([2, 3, 1, 0, 3], np.int32)
    rows = ROWS if steps_first else STEPS

    def build(x: Any, h: Any, c: Any, params: Any) -> Any:
        return list(raw_ops.CudnnRNNV3(input=x, input_h=h, input_c=c, params=params,
                                       sequence_lengths=lengths, **attrs))[:3]

    def state(size: int, seed: int) -> np.ndarray:
        return normal(*((sides, rows) if steps_first else (rows, sides)), size, seed=seed,
                      dtype=np.float64)

    check_gradient(build, normal(STEPS, ROWS, size, dtype=np.float64),
                   state(attrs.get("num_proj", UNITS), 1), state(UNITS, 2), params, second=False,
                   forms=["unknown"])


def test_the_gradients_of_dropout_are_those_of_its_factors() -> None:
    """One direction, as every session draws the same factors first."""
    params, _ = vector("gru")
    x, h = normal(STEPS, ROWS, SIZE, dtype=np.float64), np.zeros((2, ROWS, UNITS))
    ahead = normal(*params.shape, seed=4, dtype=np.float64)

    def run(at: np.ndarray) -> tuple[float, np.ndarray]:
        with hf.Graph().as_default(), hf.Session() as session:
            vector = hf.constant(at)
            output, end = operations.cudnn_gru(x, h, vector, True, dropout=0.5, seed=3)
            loss = hf.reduce_sum(output * output) + hf.reduce_sum(end)
            return session.run([loss, hf.gradients(loss, vector)[0]])

    slope = (run(params + 1e-6 * ahead)[0] - run(params - 1e-6 * ahead)[0]) / 2e-6
    np.testing.assert_allclose(run(params)[1] @ ahead, slope, rtol=1e-6)


def test_dropout_is_between_layers_and_in_training() -> None:
    x = normal(STEPS, ROWS, SIZE)
    with hf.Graph().as_default(), hf.Session() as session:
        net = layer("lstm", dropout=0.5)
        trained, served = net(x)[0], net(x, training=False)[0]
        plain = layer("lstm")
        plain.build([STEPS, ROWS, SIZE])
        same = hf.assign(plain.kernel, net.kernel)
        session.run(hf.global_variables_initializer())
        session.run(same)
        first, second = session.run(trained), session.run(trained)
        assert not np.array_equal(first, second)
        np.testing.assert_allclose(session.run(served), session.run(plain(x)[0]))


@pytest.mark.parametrize("more", [
    {}, {"direction": "bidirectional"}, {"input_mode": "skip_input", "size": UNITS},
    {"num_proj": 2}])
@pytest.mark.parametrize("mode", MODES)
def test_canonical_parameters(mode: str, more: dict[str, Any]) -> None:
    """There and back, with gradients; of a layer that skips the matrices are the unit matrix."""
    if "num_proj" in more and mode != "lstm":
        with pytest.raises(errors.InvalidArgumentError, match="only an LSTM"):
            vector(mode, **more)
        return
    params, sides = vector(mode, **more)
    size = more.get("size", SIZE)
    said = {k: v for k, v in more.items() if k != "size"}
    with hf.Graph().as_default(), hf.Session() as session:
        weights, biases = operations.cudnn_rnn_opaque_params_to_canonical(
            mode, 2, UNITS, size, params, **said)
        again = operations.cudnn_rnn_canonical_to_opaque_params(
            mode, 2, UNITS, size, weights, biases, **said)
        values = session.run([weights, biases, again])
    assert np.array_equal(values[2], params)
    assert len(values[1]) == operations.PER_LAYER[mode] * sides
    if "input_mode" in more:
        assert np.array_equal(values[0][0], np.eye(UNITS))

    def build(params: Any) -> Any:
        weights, biases = operations.cudnn_rnn_opaque_params_to_canonical(
            mode, 2, UNITS, size, params, **said)
        return operations.cudnn_rnn_canonical_to_opaque_params(
            mode, 2, UNITS, size, [hf.square(w) for w in weights], biases, **said)

    check_gradient(build, params, second=False, forms=["static"])


def test_models_of_first_versions() -> None:
    """As the layers, with parameters and states that are given."""
    x, h = normal(STEPS, ROWS, SIZE), normal(4, ROWS, UNITS)
    with hf.Graph().as_default(), hf.Session() as session:
        for mode, kind in (("lstm", models.CudnnLSTM), ("gru", models.CudnnGRU),
                           ("rnn_tanh", models.CudnnRNNTanh), ("rnn_relu", models.CudnnRNNRelu)):
            model = kind(2, UNITS, SIZE, direction="bidirectional")
            params = 0.1 * normal(session.run(model.params_size()))
            states = [h, h] if mode == "lstm" else [h]
            output = session.run(model(x, *states, params)[0])
            again = model.canonical_to_params(*model.params_to_canonical(params))
            net = layer(mode, "bidirectional")
            expected = net(x, tuple(states))[0]
            session.run(hf.assign(net.kernel, again))
            np.testing.assert_allclose(output, session.run(expected), rtol=1e-6)


def test_the_batch_may_come_first() -> None:
    x = normal(STEPS, ROWS, SIZE)
    with hf.Graph().as_default(), hf.Session() as session:
        net = layer("gru", "bidirectional")
        first = net(x, sequence_lengths=LENGTHS)
        second = net(x.swapaxes(0, 1), sequence_lengths=LENGTHS, time_major=False)
        session.run(hf.global_variables_initializer())
        (a, (b,)), (c, (d,)) = session.run([first, second])
    assert np.array_equal(a, c.swapaxes(0, 1)) and np.array_equal(b, d.swapaxes(0, 1))


def test_halves_are_computed_in_single_precision() -> None:
    x = normal(STEPS, ROWS, SIZE).astype(np.float16)
    with hf.Graph().as_default(), hf.Session() as session:
        net = layer("lstm", dtype=hf.float16)
        output = net(x)[0]
        grad = hf.gradients(output, net.kernel)[0]
        wide = layer("lstm")
        expected = wide(x.astype(np.float32))[0]
        by_wide = hf.gradients(expected, wide.kernel)[0]
        session.run(hf.global_variables_initializer())
        session.run(hf.assign(wide.kernel, hf.cast(net.kernel, hf.float32)))
        found = session.run([output, grad, expected, by_wide])
    assert found[0].dtype == found[1].dtype == np.float16
    np.testing.assert_allclose(found[0], found[2], rtol=0, atol=2e-3)
    np.testing.assert_allclose(found[1], found[3], rtol=0, atol=2e-2)


def test_training_goes_on_from_a_checkpoint(tmp_path: Any) -> None:
    x = normal(STEPS, ROWS, SIZE)

    def program() -> tuple[Any, Any]:
        output, _ = layer("lstm", "bidirectional")(x)
        loss = hf.reduce_mean(hf.square(output - 0.3))
        return loss, hf.train.AdamOptimizer(0.05).minimize(loss)

    with hf.Graph().as_default(), hf.Session() as session:
        loss, train = program()
        session.run(hf.global_variables_initializer())
        before = session.run(loss)
        for _ in range(10):
            session.run(train)
        path = hf.train.Saver().save(session, str(tmp_path / "saved"))
        session.run(train)
        expected = session.run(loss)
    assert expected < before / 4
    with hf.Graph().as_default(), hf.Session() as session:
        loss, train = program()
        hf.train.Saver().restore(session, path)
        session.run(train)
        np.testing.assert_allclose(session.run(loss), expected, rtol=1e-4)


@pytest.mark.parametrize("options", [{"use_resource": True}, {
    "partitioner": hf.fixed_size_partitioner(2)}])
def test_variables_of_other_kinds(options: dict[str, Any], tmp_path: Any) -> None:
    """By handle; and in a scope that cuts others, which are saved in one piece."""
    with hf.Graph().as_default(), hf.Session() as session, hf.variable_scope("outer", **options):
        net = layer("gru")
        output, _ = net(normal(STEPS, ROWS, SIZE))
        train = hf.train.AdamOptimizer(0.1).minimize(hf.reduce_sum(output))
        session.run(hf.global_variables_initializer())
        expected = session.run(output)
        path = hf.train.Saver().save(session, str(tmp_path / "saved"))
        session.run(train)
        hf.train.Saver().restore(session, path)
        np.testing.assert_allclose(session.run(output), expected, rtol=0, atol=1e-6)
    names = dict(hf.train.list_variables(path))
    assert "outer/net/rnn/multi_rnn_cell/cell_1/cudnn_compatible_gru_cell/gates/kernel" in names
    assert "outer/net/opaque_kernel" not in names and net.kernel.shape == [
        net.kernel.shape.num_elements()]


def test_the_scope_of_what_is_saved() -> None:
    """That of the layer where a call builds it, else the one around it; once for all calls."""
    with hf.Graph().as_default():
        called, built = layer("lstm"), cudnn_rnn.CudnnLSTM(1, UNITS)
        for steps in (STEPS, 1):
            called(normal(steps, ROWS, SIZE))
        built.build([None, None, SIZE])
        names = [s.specs[0].name for s in hf.get_collection(hf.GraphKeys.SAVEABLE_OBJECTS)]
    inner = "rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel"
    assert names == [f"net/{inner}", inner]
    assert built.kernel.op.name == "cudnn_lstm/opaque_kernel"


@pytest.mark.parametrize(("steps", "rows"), [(0, 2), (2, 0), (2, 1)])
def test_few_steps_and_rows(steps: int, rows: int) -> None:
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder(hf.float32, [None, None, SIZE])
        net = layer("lstm", "bidirectional")
        output, (state, _) = net(x)
        grads = hf.gradients(output, [net.kernel, x])
        session.run(hf.global_variables_initializer())
        found = session.run([output, state, *grads], {x: normal(steps, rows, SIZE)})
    assert [v.shape for v in found] == [
        (steps, rows, 2 * UNITS), (4, rows, UNITS), tuple(net.kernel.shape.as_list()),
        (steps, rows, SIZE)]
    assert all(np.isfinite(v).all() for v in found)


# ---------------------------------------------------------------- what is wrong


def run_wrong(mode: str = "lstm", **changes: Any) -> None:
    params, sides = vector(mode)
    state = np.zeros((sides, ROWS, UNITS))
    given = {"input": np.zeros((STEPS, ROWS, SIZE)), "input_h": state, "input_c": state,
             "params": params, "sequence_lengths": LENGTHS, "rnn_mode": mode, **changes}
    arrays = {k: v for k, v in given.items() if isinstance(v, np.ndarray)}
    with hf.Graph().as_default(), hf.Session() as session:
        fed = {k: hf.placeholder(v.dtype) for k, v in arrays.items()}
        output = raw_ops.CudnnRNNV3(**{**given, **fed}).output
        session.run(output, {fed[k]: v for k, v in arrays.items()})


@pytest.mark.parametrize(("changes", "message"), [
    ({"params": np.zeros(7)}, "params must have the shape"),
    ({"input": np.zeros((STEPS, ROWS))}, "input must be 3-dimensional|input.*rank|3-D"),
    ({"input_h": np.zeros((2, ROWS + 1, UNITS))}, "input_"),
    ({"input_c": np.zeros((2, ROWS, UNITS + 1))}, "input_c must have the shape"),
    ({"sequence_lengths": np.array([1, 2], np.int32)}, "sequence_lengths must have the shape"),
    ({"sequence_lengths": np.array([1, 2, 9], np.int32)}, r"must be in \[0, 5\]"),
    ({"input_mode": "skip_input"}, "skip_input needs inputs of the size of the units"),
    ({"dropout": 1.5}, r"dropout must be in \[0, 1\]"),
    ({"num_proj": 7}, "num_proj"),
    ({"rnn_mode": "gru", "num_proj": 2}, "num_proj")])
def test_wrong_inputs_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        run_wrong(**changes)


def test_what_layers_refuse() -> None:
    with pytest.raises(ValueError, match="Invalid direction"):
        cudnn_rnn.CudnnLSTM(1, 2, direction="sideways")
    with pytest.raises(ValueError, match="Invalid input_mode"):
        cudnn_rnn.CudnnLSTM(1, 2, input_mode="none")
    with pytest.raises(ValueError, match="float16, float32, float64"):
        cudnn_rnn.CudnnLSTM(1, 2, dtype=hf.int32)
    net = cudnn_rnn.CudnnGRU(1, 2)
    with pytest.raises(ValueError, match="input_size"):
        _ = net.input_size
    with hf.Graph().as_default():
        with pytest.raises(ValueError, match="3 dims"):
            net.build([2, 3])
        with pytest.raises(ValueError, match="should be defined"):
            net.build([2, 3, None])
        with pytest.raises(TypeError, match="expecting tuple"):
            net(normal(2, 3, 4), normal(1, 3, 2))
        output, _ = net(normal(2, 3, 4), training=False)
        with pytest.raises(ValueError, match="is_training"):
            hf.gradients(output, net.kernel)
