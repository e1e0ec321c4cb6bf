"""Summaries of numbers for a debugger, constants mapped from files, training of word vectors."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.graph.raw import raw_ops


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        yield session


VALUES = np.array([[1, np.nan, -np.inf, -2], [0, np.inf, 3, 0]], np.float32)


def test_counting_nan(session):
    assert session.run(raw_ops.DebugNanCount(input=VALUES)).tolist() == [1]
    assert session.run(raw_ops.DebugNanCount(input=[1, 2])).tolist() == [0]
    with pytest.raises(hf.errors.InvalidArgumentError, match="real numbers"):
        session.run(raw_ops.DebugNanCount(input=["a"]))


def test_summary_of_numbers(session):
    found = session.run(raw_ops.DebugNumericSummary(input=VALUES))
    finite = [1, -2, 0, 3, 0]
    np.testing.assert_allclose(
        found, [1, 8, 1, 1, 1, 2, 2, 1, -2, 3, np.mean(finite), np.var(finite)])
    nothing = session.run(raw_ops.DebugNumericSummary(input=np.array([np.nan], np.float32)))
    np.testing.assert_array_equal(
        nothing, [1, 1, 1, 0, 0, 0, 0, 0, np.inf, -np.inf, np.nan, np.nan])
    flags = session.run(raw_ops.DebugNumericSummary(input=[True, False, True]))
    assert flags[5:7].tolist() == [1, 2]


def test_mapped_constants(session, tmp_path):
    path = str(tmp_path / "data")
    values = np.arange(6, dtype=np.float32)
    values.tofile(path)

    def mapped(shape, dtype=hf.float32, name=path):
        return raw_ops.ImmutableConst(dtype=dtype, shape=shape, memory_region_name=name)

    np.testing.assert_array_equal(session.run(mapped([2, 3])), values.reshape(2, 3))
    np.testing.assert_array_equal(session.run(mapped([3]) * 2), values[:3] * 2)
    assert session.run(mapped([])) == 0 and session.run(mapped([0, 2])).shape == (0, 2)
    with pytest.raises(hf.errors.NotFoundError):
        session.run(mapped([2], name="/no/such/file"))
    with pytest.raises(hf.errors.InternalError, match="24 bytes, the tensor 28"):
        session.run(mapped([7]))
    with pytest.raises(hf.errors.UnimplementedError):
        session.run(mapped([1], hf.string))


def test_skip_grams(session, tmp_path):
    words = (b"a b c d e f g h i j " * 40).split()
    path = tmp_path / "text"
    path.write_bytes(b" ".join(words) + b" rare")
    op = raw_ops.Skipgram(filename=str(path), batch_size=64, window_size=2, min_count=2,
                          subsample=0.0)
    assert op[5].shape.as_list() == [64]
    vocabulary, counts, size, epoch, processed, examples, labels = session.run(op)
    assert vocabulary[0] == b"UNK" and sorted(vocabulary[1:]) == sorted(set(words))
    assert counts.tolist() == [1] + [40] * 10 and size == 401 and epoch == 0 and processed == 401
    place = {word: i for i, word in enumerate(b"a b c d e f g h i j".split())}
    for a, b in zip(vocabulary[examples], vocabulary[labels], strict=True):
        distance = (place[a] - place[b]) % 10
        assert distance in (1, 2, 8, 9), (a, b)
    for _ in range(60):
        found = session.run(op[3:5])
    assert found[0] >= 1 and found[1] >= 802
    frequent = raw_ops.Skipgram(filename=str(path), batch_size=8, window_size=2, min_count=2,
                                subsample=1e-3)
    assert len(session.run(frequent)[5]) == 8
    with pytest.raises(hf.errors.NotFoundError):
        session.run(raw_ops.Skipgram(filename="/no/such/file", batch_size=1))


def test_training_by_negative_samples(session):
    rng = np.random.default_rng(4)
    start = [rng.normal(size=(4, 3)).astype(np.float32) for _ in range(2)]
    w_in, w_out = (hf.Variable(v) for v in start)
    train = raw_ops.NegTrain(w_in=w_in._ref(), w_out=w_out._ref(), examples=[1, 1], labels=[2, 2],
                             lr=0.5, vocab_count=[5, 4, 3, 2], num_negative_samples=0)
    session.run(hf.global_variables_initializer())
    session.run(train)
    inner, outer = start
    for _ in range(2):
        slope = 0.5 / (1 + np.exp(inner[1] @ outer[2]))
        change = slope * outer[2]
        outer[2] += slope * inner[1]
        inner[1] += change
    found = session.run([w_in, w_out])
    np.testing.assert_allclose(found[0], inner, rtol=1e-5)
    np.testing.assert_allclose(found[1], outer, rtol=1e-5)
    many = raw_ops.NegTrain(w_in=w_in._ref(), w_out=w_out._ref(), examples=[0] * 50,
                            labels=[1] * 50, lr=0.2, vocab_count=[5, 4, 3, 2],
                            num_negative_samples=4)
    session.run(many)
    w, v = session.run([w_in, w_out])
    assert w[0] @ v[1] > max(w[0] @ v[2], w[0] @ v[3])
    for wrong in ({"examples": [4]}, {"labels": [-1]}, {"vocab_count": [1, 2]}):
        arguments = {"examples": [0], "labels": [0], "vocab_count": [5, 4, 3, 2], **wrong}
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(raw_ops.NegTrain(w_in=w_in._ref(), w_out=w_out._ref(), lr=0.1,
                                         num_negative_samples=1, **arguments))
