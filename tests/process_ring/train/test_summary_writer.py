"""Event files: written by FileWriter, read back by TensorBoard."""

from __future__ import annotations

import glob
import os

import numpy as np
import pytest

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as g:
        yield g


def read(logdir):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    everything = dict.fromkeys(("tensors", "scalars", "histograms"), 0)
    accumulator = EventAccumulator(str(logdir), size_guidance=everything)
    accumulator.Reload()
    return accumulator


def events(logdir):
    found = []
    for name in sorted(glob.glob(os.path.join(logdir, "events.*"))):
        found.extend(hf.train.summary_iterator(name))
    return found


def test_tensorboard_reads_a_run(tmp_path, graph):
    x = hf.placeholder(hf.float32, [], name="x")
    summary = hf.summary.merge([hf.summary.scalar("loss", x), hf.summary.histogram("h", x),
                                hf.summary.text("note", "a note")])
    with hf.Session() as session, hf.summary.FileWriter(str(tmp_path), graph) as writer:
        for step in range(3):
            writer.add_summary(session.run(summary, {x: step / 2}), step)
    run = read(tmp_path)
    assert run.Graph() is not None
    assert {n.name for n in run.Graph().node} == {op.name for op in graph.get_operations()}
    assert [(e.step, e.value) for e in run.Scalars("loss")] == [(0, 0), (1, 0.5), (2, 1)]
    assert [e.step for e in run.Histograms("h")] == [0, 1, 2]
    assert run.SummaryMetadata("note").plugin_data.plugin_name == "text"
    assert len(run.Tensors("note")) == 3


def test_the_order_and_kinds_of_events(tmp_path):
    writer = hf.summary.FileWriter(str(tmp_path))
    assert writer.get_logdir() == str(tmp_path)
    made = hf.Summary(value=[hf.Summary.Value(tag="a", simple_value=1.0)])
    writer.add_summary(made)
    writer.add_summary(made.SerializeToString(), np.int64(5))
    writer.add_session_log(hf.summary.SessionLog(status=hf.summary.SessionLog.START), 6)
    writer.add_run_metadata(hf.RunMetadata(), "step 7", 7)
    hf.constant(1.0, name="c")
    writer.add_graph(graph_def=hf.get_default_graph().as_graph_def(), global_step=8)
    writer.add_meta_graph(hf.train.export_meta_graph(), 9)
    writer.add_event(hf.Event(step=10, file_version="own"))
    writer.flush()
    found = events(tmp_path)
    assert [e.WhichOneof("what") for e in found] == [
        "file_version", "summary", "summary", "session_log", "tagged_run_metadata", "graph_def",
        "meta_graph_def", "file_version"]  # fmt: skip
    assert [e.step for e in found] == [0, 0, 5, 6, 7, 8, 9, 10]
    assert all(e.wall_time > 1e9 for e in found[:-1])
    assert hf.GraphDef.FromString(found[5].graph_def).node[0].name == "c"
    writer.close()


def test_the_description_of_a_tag_is_written_once(tmp_path):
    summary = hf.summary.text("t", "x")
    with hf.Session() as session, hf.summary.FileWriter(str(tmp_path)) as writer:
        for step in range(2):
            writer.add_summary(session.run(summary), step)
    first, second = (e.summary.value[0] for e in events(tmp_path)[1:])
    assert first.HasField("metadata")
    assert not second.HasField("metadata")


def test_after_closing(tmp_path):
    writer = hf.summary.FileWriter(str(tmp_path))
    made = hf.Summary(value=[hf.Summary.Value(tag="a", simple_value=1.0)])
    writer.add_summary(made, 1)
    writer.close()
    writer.close()
    writer.flush()
    with pytest.warns(UserWarning, match="closed FileWriter"):
        writer.add_summary(made, 2)
    writer.reopen()
    writer.reopen()
    writer.add_summary(made, 3)
    writer.close()
    assert len(glob.glob(str(tmp_path / "events.*"))) == 2
    # Files of the same second are read in the order of their numbers as text.
    assert sorted([e.step for e in read(tmp_path).Scalars("a")]) == [1, 3]


def test_wrong_arguments(tmp_path, graph):
    with pytest.raises(ValueError, match="only graph, or graph_def"):
        hf.summary.FileWriter(str(tmp_path / "none"), graph, graph_def=graph.as_graph_def())
    assert not (tmp_path / "none").exists()
    with hf.summary.FileWriter(str(tmp_path)) as writer:
        with pytest.raises(ValueError, match="only graph, or graph_def"):
            writer.add_graph(graph, graph_def=graph.as_graph_def())
        with pytest.raises(TypeError, match="must be an instance of `Graph`"):
            writer.add_graph("graph")
        with pytest.raises(TypeError, match="MetaGraphDef"):
            writer.add_meta_graph(graph.as_graph_def())
        writer.add_run_metadata(hf.RunMetadata(), "tag")
        with pytest.raises(ValueError, match="'tag'"):
            writer.add_run_metadata(hf.RunMetadata(), "tag")
        with pytest.raises(TypeError):
            writer.add_event("event")
    with pytest.raises(hf.errors.NotFoundError):
        list(hf.train.summary_iterator(str(tmp_path / "absent")))


def test_a_file_that_is_being_written(tmp_path):
    writer = hf.summary.FileWriter(str(tmp_path))
    made = hf.Summary(value=[hf.Summary.Value(tag="a", simple_value=1.0)])
    writer.add_summary(made, 1)
    writer.add_summary(made, 2)
    writer.close()
    (name,) = glob.glob(str(tmp_path / "events.*"))
    with open(name, "r+b") as file:
        file.truncate(os.path.getsize(name) - 3)
    assert [e.step for e in hf.train.summary_iterator(name)] == [0, 1]


def test_writers_are_shared_by_directory(tmp_path):
    cache = hf.summary.FileWriterCache
    first = cache.get(str(tmp_path / "a"))
    assert cache.get(str(tmp_path / "a")) is first
    assert cache.get(str(tmp_path / "b")) is not first
    cache.clear()
    assert cache.get(str(tmp_path / "a")) is not first
    cache.clear()


def test_a_graph_at_once_comes_with_its_description(tmp_path):
    with hf.Graph().as_default() as graph:
        hf.constant(1.0, name="c")
    with hf.summary.FileWriter(str(tmp_path), graph, filename_suffix=".own"):
        pass
    assert next(tmp_path.iterdir()).name.endswith(".own")
    _, first, second = events(tmp_path)
    meta = hf.MetaGraphDef.FromString(second.meta_graph_def)
    assert meta.graph_def == hf.GraphDef.FromString(first.graph_def)
    assert meta.meta_info_def.stripped_op_list.op[0].name == "Const"
