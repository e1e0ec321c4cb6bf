"""Arguments and results that functions have in later 1.x releases."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow.python.client import timeline


def test_positions_of_maxima_in_the_batch(session):
    x = hf.constant(np.random.RandomState(1).permutation(2 * 4 * 4 * 3).reshape(2, 4, 4, 3) * 1.0)
    sizes = [1, 2, 2, 1]
    most, each = hf.nn.max_pool_with_argmax(x, sizes, sizes, "VALID")
    same, whole = hf.nn.max_pool_with_argmax(x, sizes, sizes, "VALID", output_dtype=hf.int32,
                                             include_batch_in_index=True)
    assert whole.dtype is hf.int32
    slopes = [hf.gradients(hf.square(y), x)[0] for y in (most, same)]
    second = [hf.gradients(s, x)[0] for s in slopes]
    values, one, two, gradients, seconds, image = session.run(
        [same, each, whole, slopes, second, x])
    np.testing.assert_array_equal(two, one + np.arange(2).reshape(2, 1, 1, 1) * 48)
    np.testing.assert_array_equal(image.reshape(-1)[two], values)
    np.testing.assert_array_equal(*gradients)
    np.testing.assert_array_equal(*seconds)


def test_csv_of_doubles(session):
    a, b = hf.decode_csv(["0.1,7", ",8"], [hf.constant([2.5], hf.float64), [0]])
    assert a.dtype is hf.float64
    assert session.run(a).tolist() == [0.1, 2.5] and session.run(b).tolist() == [7, 8]
    with pytest.raises(hf.errors.InvalidArgumentError, match="is not a valid double"):
        session.run(hf.decode_csv(["x"], [hf.constant([], hf.float64)]))


def test_what_a_step_held_at_most(session):
    x = hf.random_normal([1000], name="x")
    y = hf.reduce_sum(hf.matmul(hf.reshape(x, [1, -1]), hf.reshape(x, [-1, 1])))
    record = hf.RunMetadata()
    session.run(y, options=hf.RunOptions(trace_level=hf.RunOptions.FULL_TRACE),
                run_metadata=record)
    analysis = timeline.Timeline(record.step_stats).analyze_step_stats()
    assert json.loads(analysis.chrome_trace.format_to_string())["traceEvents"]
    stats = [n for d in record.step_stats.dev_stats for n in d.node_stats]
    given = {f"{n.node_name}:{o.slot}": o.tensor_description.allocation_description.allocated_bytes
             for n in stats for o in n.output}
    assert set(analysis.allocator_maximums) == {"cpu"}
    for most in analysis.allocator_maximums.values():
        assert most.num_bytes == sum(given[name] for name in most.tensors) > 0


def test_made_up_records_have_known_maxima():
    """Two tensors at a time are held: each from its op's end to the end of its reader."""
    record = hf.RunMetadata()
    device = record.step_stats.dev_stats.add(device="/cpu:0")
    for i, (name, reads) in enumerate([("a", ""), ("b", "a"), ("c", "b"), ("d", "b, c")]):
        stats = device.node_stats.add(node_name=name, timeline_label=f"{name} = Op({reads})",
                                      all_start_micros=10 * i, all_end_rel_micros=5)
        memory = stats.output.add().tensor_description.allocation_description
        memory.allocator_name, memory.allocated_bytes = "cpu", 100 + i
    found = timeline.Timeline(record.step_stats).analyze_step_stats().allocator_maximums
    assert found == {"cpu": (35, 306, {"b:0", "c:0", "d:0"})}


def test_modules_of_1x_run_as_programs():
    run = subprocess.run([sys.executable, "-m", "hpcflow.python.tools.freeze_graph", "--help"],
                         capture_output=True, text=True, timeout=patience())
    assert run.returncode == 0 and "--output_node_names" in run.stdout, run.stderr
