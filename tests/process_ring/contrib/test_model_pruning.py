"""contrib.model_pruning: where masks are, which weights they leave out, and when."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def _spec(text):
    return hf.contrib.model_pruning.get_pruning_hparams().parse(text)


def test_layers_and_cells_have_masks():
    pruning = hf.contrib.model_pruning
    x = pruning.masked_conv2d(hf.ones([2, 4, 4, 3]), 4, 3, scope="c")
    pruning.masked_fully_connected(hf.reshape(x, [2, -1]), 5, scope="f")
    hf.nn.dynamic_rnn(pruning.MaskedBasicLSTMCell(5), hf.ones([2, 4, 3]), dtype=hf.float32)
    pruning.MaskedLSTMCell(5, num_proj=2)(hf.ones([2, 3]), (hf.ones([2, 5]), hf.ones([2, 2])))
    cells = ["rnn/masked_basic_lstm_cell", "masked_lstm_cell"]
    assert [w.name for w in pruning.get_weights()] == [
        "c/weights:0", "f/weights:0", *(f"{cell}/kernel:0" for cell in cells)]
    assert [w.name for w in pruning.get_masked_weights()] == [
        f"{scope}/weights/masked_weight:0" for scope in ("c", "f", *cells)]
    assert [m.name for m in pruning.get_masks()] == [
        f"{scope}/mask:0" for scope in ("c", "f", *cells)]
    assert not {*pruning.get_masks(), *pruning.get_thresholds()} & {*hf.trainable_variables()}
    with pytest.raises(ValueError, match="rank 3"):
        pruning.masked_conv2d(hf.ones([2, 4, 3]), 4, 3)


def test_masks_grow_with_the_steps(form):
    pruning = hf.contrib.model_pruning
    weights = hf.Variable(np.arange(1, 11) * np.float32([5, -5] * 5))
    masked = pruning.apply_mask(weights)
    step = hf.train.get_or_create_global_step()
    update = pruning.Pruning(_spec(
        "end_pruning_step=20,pruning_frequency=5,sparsity_function_end_step=10,"
        "sparsity_function_exponent=1,target_sparsity=0.8")).conditional_mask_update_op()
    kept = []
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        for i in range(12):
            session.run(step.assign(i))
            session.run(update)
            kept.append(int(session.run(pruning.get_masks()[0]).sum()))
        assert kept == [10] * 5 + [6] * 5 + [2] * 2
        assert session.run(masked).tolist() == [0] * 8 + [45, -50]
        assert session.run(pruning.get_weight_sparsity())[0] == np.float32(0.8)


def test_blocks_and_sparsities_of_their_own():
    pruning = hf.contrib.model_pruning
    partitioner = hf.fixed_size_partitioner(2)
    with hf.variable_scope("big", partitioner=partitioner):
        whole = hf.get_variable("w", initializer=np.arange(1., 17.).reshape(4, 4))
        masked = pruning.apply_mask(whole)
    hf.train.create_global_step()
    update = pruning.Pruning(_spec("block_dims_map=[big:2x2],weight_sparsity_map=[big:0.25]"),
                             sparsity=0.5).mask_update_op()
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(update)
        assert (session.run(masked) != 0).tolist() == [[False, False, True, True]] * 2 + [
            [True] * 4] * 2


@pytest.mark.parametrize("text", [
    "begin_pruning_step=-1", "begin_pruning_step=5,end_pruning_step=3", "target_sparsity=1.0",
    "weight_sparsity_map=[a:1.5]", "block_dims_map=[a:1x2x3]"])
def test_parameters_out_of_range(text):
    hf.train.create_global_step()
    with pytest.raises(ValueError):
        hf.contrib.model_pruning.Pruning(_spec(text))


def test_graphs_without_masks():
    pruning = hf.contrib.model_pruning
    out = pruning.masked_fully_connected(hf.ones([2, 3]), 4, scope="f")
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        frozen = hf.graph_util.convert_variables_to_constants(
            session, hf.get_default_graph().as_graph_def(), [out.op.name])
        expected = session.run(out)
    stripped = pruning.strip_pruning_vars_fn(frozen, [out.op.name])
    assert not any("mask" in node.name and node.op != "Const" for node in stripped.node)
    with hf.Graph().as_default(), hf.Session() as session:
        hf.import_graph_def(stripped, name="")
        assert np.array_equal(session.run(out.name), expected)
