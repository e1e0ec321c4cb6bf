"""Traces over ranks: drawn in the Trace Event format, aligned, merged, and summed up."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.tools.cli import main
from hpcflow.tools.timeline import Timeline
from hpcflow.tools.trace.chrome import draw, text_of
from hpcflow.tools.trace.clocks import aligned
from hpcflow.tools.trace.links import collectives, messages
from hpcflow.tools.trace.spans import Span, read_spans, spans_of
from hpcflow.tools.trace.summary import summary

TRACE = hf.RunOptions(trace_level=hf.RunOptions.FULL_TRACE)
A, B = (f"/job:worker/replica:0/task:{i}/device:CPU:0" for i in range(2))
ZERO = 1_700_000_000_000_000.0


def span(name, device, start, end, op="Add", inputs=(), edge="", nbytes=0, session=0):
    outputs = ((0, nbytes, "cpu"),) if nbytes else ()
    return Span(name, op, device, session, 1, ZERO + start, ZERO + end, inputs, edge, outputs)


def exchange(ahead=0.0):
    """A step in which A computes 100 us, sends to B in 40, B computes 200 and sends back in 60; the
    clock of B is `ahead` microseconds ahead."""
    there, back = f"x:0;{A};{B}", f"y:0;{B};{A}"
    on_a = [span("x", A, 0, 100, nbytes=800),
            span("x/_send_0", A, 100, 110, "_Send", ("x",), there),
            span("y/_recv_0", A, 0, 405, "_Recv", edge=back, nbytes=400),
            span("end", A, 405, 500, inputs=("y/_recv_0",))]
    on_b = [span("x/_recv_0", B, 5, 140, "_Recv", edge=there, nbytes=800),
            span("y", B, 140, 340, inputs=("x/_recv_0",), nbytes=400),
            span("y/_send_0", B, 345, 350, "_Send", ("y",), back)]
    return on_a + [s.moved(ahead) for s in on_b]


def reduction(ahead=0.0):
    """Two sessions: B begins to reduce 300 us after A."""
    keys = {"op": "MpiAllreduce", "edge": "key", "nbytes": 64}
    return [span("sum", A, 100, 450, **keys), span("late", B, 0, 400, session=1).moved(ahead),
            span("sum", B, 400, 440, inputs=("late",), session=1, **keys).moved(ahead)]


# ---------------------------------------------------------------- the format


def check_format(trace):
    """Raise AssertionError for what is no valid trace in the Trace Event format."""
    assert set(trace) <= {"traceEvents", "displayTimeUnit", "otherData"}
    events = trace["traceEvents"]
    slices, names, flows = {}, set(), {}
    for event in events:
        assert event["ph"] in "MXstfC" and type(event["name"]) is str
        assert type(event["pid"]) is int and type(event["tid"]) is int
        row = event["pid"], event["tid"]
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and event["args"]["name"]
            names.add((event["name"], *(row if event["name"] == "thread_name" else row[:1])))
            continue
        assert type(event["ts"]) in (int, float) and event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["cat"]
            assert {("process_name", event["pid"]), ("thread_name", *row)} <= names
            slices.setdefault(row, []).append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] == "C":
            assert all(type(v) in (int, float) and v >= 0 for v in event["args"].values())
        else:
            flows.setdefault((event["cat"], event["id"]), []).append(event)
    for of_row in slices.values():
        of_row.sort()
        assert all(first[1] <= then[0] for first, then in pairwise(of_row))
    for begin, end in flows.values():  # in their order in time
        assert (begin["ph"], begin["name"]) == ("s", end["name"])
        assert end["ph"] == "t" or (end["ph"], end["bp"]) == ("f", "e")
        assert begin["ts"] <= end["ts"]
        for event in (begin, end):
            row = slices[event["pid"], event["tid"]]
            assert any(start <= event["ts"] <= stop for start, stop in row)
    assert not {tid for _, tid in slices} & {0, *(event["pid"] for event in events)}
    times = [e["ts"] for e in events if "ts" in e]
    assert times == sorted(times)


def drawn(spans):
    moved, offsets = aligned(spans)
    trace = json.loads(text_of(draw(moved, offsets)))
    check_format(trace)
    return trace


def test_a_step_of_two_tasks_is_drawn_with_arrows_between_them():
    with hf.Graph().as_default():
        spec = hf.train.ClusterSpec({"worker": ["localhost:1", "localhost:2"]})
        servers = [hf.train.Server(spec, "worker", i) for i in range(2)]
        x = hf.placeholder(hf.float32, [8], name="x")
        with hf.device("/job:worker/task:1"):
            far = hf.square(x, name="far")
            loop = hf.while_loop(lambda v: hf.reduce_sum(v) < 1e3, lambda v: v * 2, [far])
        near = hf.identity(loop, name="near")
        metadata = hf.RunMetadata()
        with hf.Session(servers[0].target) as session:
            session.run(near, {x: np.ones(8)}, TRACE, metadata)
        for server in servers:
            server._server.close()
    trace = json.loads(Timeline(metadata.step_stats).generate_chrome_trace_format(
        show_memory=True))
    check_format(trace)
    sent = [e for e in trace["traceEvents"] if e.get("cat") == "Message" and e["ph"] == "s"]
    told = {(e["args"]["from"], e["args"]["to"], e["args"]["bytes"]) for e in sent}
    assert told == {(A, B, 32), (B, A, 32)}
    held = [e["args"]["bytes"] for e in trace["traceEvents"] if e["ph"] == "C"]
    assert max(held) >= 32 and held[-1] == 0


def test_faults_of_the_format_are_found():
    trace = drawn(exchange())
    for event in trace["traceEvents"]:
        if event["ph"] == "f":
            event["ts"] += 1000
    with pytest.raises(AssertionError):
        check_format(trace)


def test_a_collective_is_one_span_over_its_ranks():
    events = drawn(reduction())["traceEvents"]
    (whole,) = [e for e in events if e.get("cat") == "Collective" and e["ph"] == "X"]
    assert (whole["ts"], whole["dur"]) == (ZERO + 100, 350)
    assert whole["args"]["ranks"] == 2 and whole["args"]["last"].endswith("task:1")
    assert whole["args"]["waited_us"]["/job:worker/replica:0/task:0"] == 300


# ---------------------------------------------------------------- clocks


@pytest.mark.parametrize("ahead", [0.0, 10.0, -20.0])
def test_clocks_that_messages_do_not_contradict_stay(ahead):
    _, offsets = aligned(exchange(ahead))
    assert [o.added for o in offsets.values()] == [0.0]


@pytest.mark.parametrize("ahead", [1e6, -1e6, 3.7e9])
def test_a_clock_that_is_wrong_is_moved_to_what_messages_allow(ahead):
    moved, offsets = aligned(exchange(ahead))
    (offset,) = offsets.values()
    assert offset.added == pytest.approx(-ahead, abs=50)
    assert offset.least <= offset.added <= offset.most
    for message in messages(moved):
        assert message.send.start <= message.receive.end
    told = drawn(exchange(ahead))["otherData"]["clock_offsets_us"]
    assert told["/job:worker/replica:0/task:1"]["added"] == offset.added


def test_reductions_align_the_clocks_of_sessions():
    moved, _ = aligned(reduction(5e6))
    (whole,) = collectives(moved)
    assert all(part.end >= whole.last.start for part in whole.parts)


# ---------------------------------------------------------------- the summary


def test_the_critical_path_crosses_ranks():
    found = summary(exchange())
    path = [(row["name"], row["what"], row["ms"], row["gap_ms"]) for row in found["path"]]
    assert path == [("x", "op", 0.1, 0.0), ("x/_send_0", "op", 0.01, 0.0),
                    ("x/_recv_0", "transfer", 0.03, 0.0), ("y", "op", 0.2, 0.0),
                    ("y/_send_0", "op", 0.005, 0.005), ("y/_recv_0", "transfer", 0.055, 0.0),
                    ("end", "op", 0.095, 0.0)]


def test_ranks_and_edges():
    found = summary(exchange())
    a, b = found["ranks"]
    assert (a["step_ms"], a["work_ms"], a["waiting_ms"], a["idle_ms"]) == (0.5, 0.205, 0.295, 0)
    assert a["waits_most_for"] == "y/_recv_0" and b["waits_most_for"] == "x/_recv_0"
    assert a["transfers_ms"] == 0.1 and a["overlap_%"] == 10.0  # the send of 10 us
    assert [(e["edge"], e["bytes"], e["ms"]) for e in found["edges"]] == [
        ("x:0", 800, 0.04), ("y:0", 400, 0.06)]


def test_the_path_leads_through_the_rank_that_came_last():
    path = [(row["where"], row["name"], row["ms"]) for row in summary(reduction())["path"]]
    assert path == [(B, "late", 0.4), (B, "sum", 0.05)]


# ---------------------------------------------------------------- the command


def traced(tmp_path, name):
    """A file with the trace of a session of this process."""
    with hf.Graph().as_default():
        x = hf.placeholder(hf.float32, [4, 4])
        y = hf.nn.relu(hf.matmul(x, x, name="product"), name="relu")
        metadata = hf.RunMetadata()
        with hf.Session() as session:
            session.run(y, {x: np.eye(4)}, TRACE, metadata)
    (tmp_path / name).write_bytes(metadata.SerializeToString())
    return metadata


def test_sessions_are_merged_and_can_be_merged_again(tmp_path, capsys):
    for name in "ab":
        metadata = traced(tmp_path, name)
    (tmp_path / "stats").write_bytes(metadata.step_stats.SerializeToString())
    a, b, stats, ab, all_of = (tmp_path / n for n in ("a", "b", "stats", "ab.json", "all.json"))
    assert main(["trace", "merge", str(a), str(b), "-o", str(ab)]) == 0
    assert main(["trace", "merge", str(ab), str(stats), "-o", str(all_of)]) == 0
    assert "of 3 tasks; the clocks agree" in capsys.readouterr().out
    check_format(json.loads(all_of.read_text()))
    read = read_spans([all_of])
    assert {s.session for s in read} == {0, 1, 2}
    own = [s for s in read if s.session == 2]
    key = [(s.name, s.op, s.start, s.end, s.inputs, s.nbytes) for s in own]
    told = [(s.name, s.op, s.start, s.end, s.inputs, s.nbytes) for s in spans_of(
        metadata.step_stats)]
    assert sorted(key) == sorted(told)
    assert main(["trace", "summary", str(a), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"product", "relu"} <= {row["name"] for row in found["path"]}
    assert main(["trace", "summary", str(all_of), "--top", "1"]) == 0
    assert "the 1 longest are shown" in capsys.readouterr().out


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"{", b"[1]", b"{}", b'{"traceEvents": []}'])
def test_files_without_a_trace_take_one_line(data, tmp_path, capsys):
    (tmp_path / "f").write_bytes(data)
    assert main(["trace", "summary", str(tmp_path / "f")]) == 2
    said = capsys.readouterr().err
    assert "has no trace in it" in said and said.count("\n") == 1
