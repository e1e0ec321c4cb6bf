"""Sequence to sequence: names and sharing of variables, attention against NumPy, training."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

seq2seq, rnn = hf.contrib.legacy_seq2seq, hf.contrib.rnn


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as s, hf.variable_scope(
            "root", initializer=hf.random_uniform_initializer(-0.5, 0.5, seed=3)):
        yield s


def symbols(count, seed=0, batch=4, top=5):
    rng = np.random.RandomState(seed)
    return [hf.constant(rng.randint(0, top, batch)) for _ in range(count)]


def vectors(count, size=2, batch=4):
    return [hf.constant(np.random.RandomState(i).randn(batch, size).astype(np.float32))
            for i in range(count)]


def names():
    return [v.name.removeprefix("root/").removesuffix(":0") for v in hf.global_variables()]


def start(session):
    session.run(hf.global_variables_initializer())


def test_basic_and_tied(session):
    outputs, state = seq2seq.basic_rnn_seq2seq(vectors(3), vectors(2), rnn.GRUCell(3))
    assert len(outputs) == 2 and state.shape == [4, 3]
    assert {n.rsplit("/", 3)[0] for n in names()} == {
        "basic_rnn_seq2seq/rnn", "basic_rnn_seq2seq/rnn_decoder"}
    before = set(names())
    seq2seq.tied_rnn_seq2seq(vectors(3), vectors(2), rnn.BasicRNNCell(3))
    assert set(names()) - before == {
        f"combined_tied_rnn_seq2seq/tied_rnn_seq2seq/basic_rnn_cell/{n}"
        for n in ("kernel", "bias")}
    start(session)
    assert session.run(outputs)[1].shape == (4, 3)


def test_a_decoder_against_numpy(session):
    x, state = vectors(3), hf.constant(np.full((4, 3), 0.25, np.float32))
    outputs, last = seq2seq.rnn_decoder(x, state, rnn.BasicRNNCell(3))
    start(session)
    w, b = session.run(hf.global_variables())
    h = np.full((4, 3), 0.25, np.float32)
    for given, found in zip(session.run(x), session.run(outputs), strict=True):
        h = np.tanh(np.concatenate([given, h], 1) @ w + b)
        np.testing.assert_allclose(found, h, rtol=1e-5)
    np.testing.assert_allclose(session.run(last), h, rtol=1e-5)


def test_a_loop_function_gives_all_inputs_but_the_first(session):
    steps = []

    def loop(previous, step):
        steps.append(step)
        return hf.zeros_like(previous)

    outputs, _ = seq2seq.rnn_decoder(vectors(3, 3), hf.zeros([4, 3]), rnn.BasicRNNCell(3), loop)
    assert steps == [1, 2] and len(outputs) == 3


def test_attention_against_numpy(session):
    states = hf.constant(np.random.RandomState(5).randn(4, 6, 2).astype(np.float32))
    x = vectors(2, 3)
    outputs, _ = seq2seq.attention_decoder(x, hf.zeros([4, 3]), states, rnn.BasicRNNCell(3),
                                           output_size=7)
    start(session)
    value = dict(zip((n.removeprefix("attention_decoder/") for n in names()),
                     session.run(hf.global_variables()), strict=True))
    assert set(value) == {
        "AttnW_0", "AttnV_0", "kernel", "bias", "basic_rnn_cell/kernel",
        "basic_rnn_cell/bias", "Attention_0/kernel", "Attention_0/bias",
        "AttnOutputProjection/kernel", "AttnOutputProjection/bias"}
    hidden = session.run(states)
    features = hidden @ value["AttnW_0"][0, 0]

    def affine(parts, scope):
        return np.concatenate(parts, 1) @ value[scope + "kernel"] + value[scope + "bias"]

    h, mean = np.zeros((4, 3), np.float32), np.zeros((4, 2), np.float32)
    for given, found in zip(session.run(x), session.run(outputs), strict=True):
        h = np.tanh(affine([affine([given, mean], ""), h], "basic_rnn_cell/"))
        scores = (value["AttnV_0"] * np.tanh(features + affine([h], "Attention_0/")[:, None])
                  ).sum(2)
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        mean = (shares[..., None] * hidden).sum(1)
        np.testing.assert_allclose(found, affine([h, mean], "AttnOutputProjection/"), rtol=2e-4,
                                   atol=1e-6)


NETWORKS = {
    "embedding": lambda fed: seq2seq.embedding_rnn_seq2seq(
        symbols(3), symbols(2, 1), rnn.BasicLSTMCell(3), 5, 6, 2, feed_previous=fed),
    "tied": lambda fed: seq2seq.embedding_tied_rnn_seq2seq(
        symbols(3), symbols(2, 1), rnn.BasicLSTMCell(3), 6, 2, feed_previous=fed),
    "attention": lambda fed: seq2seq.embedding_attention_seq2seq(
        symbols(3), symbols(2, 1), rnn.GRUCell(3), 5, 6, 2, num_heads=2, feed_previous=fed,
        initial_state_attention=True),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_feeding_back_may_be_decided_when_a_step_runs(session, kind):
    build = NETWORKS[kind]
    flag = hf.placeholder(hf.bool, [])
    with hf.variable_scope("net") as scope:
        fixed = [build(False)[0]]
        scope.reuse_variables()
        fixed.append(build(True)[0])
        chosen, _ = build(flag)
    count = len(names())
    start(session)
    for fed in (False, True):
        one, other = session.run([fixed[fed], chosen], {flag: fed})
        assert len(one) == 2 and one[0].shape == (4, 6)
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(*session.run([f[1] for f in fixed]))
    assert len(names()) == count


def test_one_encoder_and_many_decoders(session):
    outputs, states = seq2seq.one2many_rnn_seq2seq(
        symbols(3), {"a": symbols(2, top=4), "b": symbols(3)}, rnn.GRUCell(3),
        {"a": rnn.GRUCell(3), "b": rnn.GRUCell(3)}, 5, {"a": 4, "b": 7}, 2)
    start(session)
    assert [o.shape for o in session.run(outputs["b"])] == [(4, 7)] * 3
    assert session.run(states["a"]).shape == (4, 3)
    assert any("one2many_decoder_a/" in n for n in names())


def test_losses(session):
    logits = [hf.constant(np.random.RandomState(i).randn(3, 5).astype(np.float32))
              for i in range(2)]
    targets = [hf.constant([0, 1, 4]), hf.constant([2, 2, 3])]
    weights = [hf.constant([1.0, 1.0, 0.0]), hf.constant([1.0, 0.0, 0.0])]
    scores = np.stack(session.run(logits))
    log = scores - np.log(np.exp(scores).sum(2, keepdims=True))
    losses = np.float32([[-log[0, 0, 0], -log[0, 1, 1], 0], [-log[1, 0, 2], 0, 0]]).sum(0)
    by_example = seq2seq.sequence_loss_by_example(logits, targets, weights)
    np.testing.assert_allclose(session.run(by_example), losses / [2, 1, 1e-12], rtol=1e-5)
    total = seq2seq.sequence_loss(logits, targets, weights, average_across_timesteps=False)
    np.testing.assert_allclose(session.run(total), losses.sum() / 3, rtol=1e-5)
    given = seq2seq.sequence_loss(logits, targets, weights, False, False,
                                  lambda labels, logits: hf.to_float(labels))
    assert session.run(given) == 3
    with pytest.raises(ValueError, match="Lengths of logits, weights, and targets"):
        seq2seq.sequence_loss(logits, targets[:1], weights)


def test_buckets_train_together(session):
    outputs, losses = seq2seq.model_with_buckets(
        symbols(4), symbols(4, 1), symbols(4, 2), [hf.ones([4])] * 4, [(2, 2), (4, 4)],
        lambda x, y: seq2seq.embedding_attention_seq2seq(x, y, rnn.GRUCell(8), 5, 5, 4))
    assert [len(o) for o in outputs] == [2, 4]
    weights = hf.trainable_variables()
    assert all(g is not None for loss in losses for g in hf.gradients(loss, weights))
    train = hf.train.AdamOptimizer(0.05).minimize(losses[0] + losses[1])
    start(session)
    before = session.run(losses)
    for _ in range(40):
        session.run(train)
    after = session.run(losses)
    assert after[1] < 0.3 * before[1] and after[0] < 0.3 * before[0]
    with pytest.raises(ValueError, match="at least that of last bucket"):
        seq2seq.model_with_buckets(symbols(3), symbols(4), symbols(4), [hf.ones([4])] * 4,
                                   [(4, 4)], lambda x, y: (y, None))


def test_what_attention_refuses():
    cell = rnn.GRUCell(3)
    with pytest.raises(ValueError, match="at least 1 input"):
        seq2seq.attention_decoder([], hf.zeros([4, 3]), hf.zeros([4, 5, 2]), cell)
    with pytest.raises(ValueError, match="less than 1 heads"):
        seq2seq.attention_decoder(vectors(1), hf.zeros([4, 3]), hf.zeros([4, 5, 2]), cell,
                                  num_heads=0)
    with pytest.raises(ValueError, match=r"Shape\[2\] of attention_states"):
        seq2seq.attention_decoder(vectors(1), hf.zeros([4, 3]),
                                  hf.placeholder(hf.float32, [None, 5, None]), cell)
    with pytest.raises(ValueError):
        seq2seq.embedding_rnn_decoder(symbols(2), hf.zeros([4, 3]), cell, 5, 2,
                                      output_projection=(hf.zeros([3, 4]), hf.zeros([5])))
