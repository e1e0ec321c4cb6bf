"""contrib.summary: what operations write to event files, when, and what is wrong without a file."""

from __future__ import annotations

import glob

import pytest

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def _written(folder):
    events = [e for path in glob.glob(f"{folder}/*") for e in hf.train.summary_iterator(path)]
    return events, sorted((e.step, v.tag, v.simple_value) for e in events
                          for v in e.summary.value)


def test_scalars_are_written_every_few_steps(tmp_path, form):
    summary = hf.contrib.summary
    step = hf.train.get_or_create_global_step()
    value = hf.placeholder(hf.float32, [])
    writer = summary.create_file_writer(tmp_path)
    with writer.as_default(), summary.record_summaries_every_n_global_steps(2):
        with hf.name_scope("model"):
            summary.scalar("loss", value * 2)
            summary.scalar("loss", value, family="f")
        with summary.never_record_summaries():
            summary.scalar("never", value)
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            summary.initialize(graph=hf.get_default_graph(), session=session)
            for i in range(3):
                recorded = session.run(summary.all_summary_ops(), {value: i})
                assert recorded == [i != 1, i != 1, False]
                session.run(step.assign_add(1))
            session.run(writer.close())
    events, values = _written(tmp_path)
    assert values == [(0, "f/model/f/loss", 0), (0, "model/loss", 0),
                      (2, "f/model/f/loss", 2), (2, "model/loss", 4)]
    assert [e.step for e in events if e.graph_def] == [0]


def test_kinds_of_summaries(tmp_path):
    summary = hf.contrib.summary
    with summary.create_file_writer(tmp_path).as_default() as writer, \
            summary.always_record_summaries():
        summary.histogram("h", [1., 2., 3.], step=3)
        summary.image("i", hf.zeros([2, 4, 4, 1]), max_images=1, step=3)
        summary.audio("a", hf.zeros([1, 10, 1]), 8000., 2, step=3)
        summary.generic("g", ["x", "y"], step=3)
        event = hf.summary.Event(step=9, summary=hf.summary.Summary(value=[
            hf.summary.Summary.Value(tag="e", simple_value=5)]))
        imported = summary.import_event(event.SerializeToString())
        damaged = summary.import_event("no event")
    with hf.Session() as session:
        session.run(summary.summary_writer_initializer_op())
        session.run([summary.all_summary_ops(), imported])
        with pytest.raises(hf.errors.DataLossError):
            session.run(damaged)
        session.run(writer.flush())
    events, values = _written(tmp_path)
    assert [(step, tag) for step, tag, _ in values] == [
        (3, "a/audio/0"), (3, "g"), (3, "h"), (3, "i/image"), (9, "e")]
    found = {v.tag: v for e in events for v in e.summary.value}
    assert found["h"].histo.sum == 6
    assert list(found["g"].tensor.string_val) == [b"x", b"y"]


def test_writers_without_a_file(tmp_path):
    summary = hf.contrib.summary
    writer = summary.create_file_writer(tmp_path)
    assert summary.create_file_writer(None).flush() is None
    assert summary.scalar("s", 1.).type == "NoOp"
    with pytest.raises(RuntimeError, match="No default"):
        summary.initialize()
    with hf.Session() as session:
        with pytest.raises(hf.errors.NotFoundError, match="initializer was not run"):
            session.run(writer.flush())
        session.run(writer.init())
        session.run(writer.close())
        with pytest.raises(hf.errors.NotFoundError):
            session.run(writer.close())
