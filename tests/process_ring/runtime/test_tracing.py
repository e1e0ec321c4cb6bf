"""RunMetadata: the record of a traced step, the partition graphs, timelines."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.tools.timeline import Timeline

TRACE = hf.RunOptions(trace_level=hf.RunOptions.FULL_TRACE)


@pytest.fixture
def graph():
    with hf.Graph().as_default() as g:
        yield g


def nodes_of(metadata):
    return {n.node_name: n for d in metadata.step_stats.dev_stats for n in d.node_stats}


def test_every_op_is_recorded_with_its_outputs(graph):
    x = hf.placeholder(hf.float32, [2, 3], name="x")
    y = hf.matmul(x, hf.ones([3, 4]), name="product")
    z = hf.reduce_sum(hf.nn.relu(y, name="relu"), name="total")
    metadata = hf.RunMetadata()
    with hf.Session() as session:
        value = session.run(z, {x: np.ones((2, 3))}, options=TRACE, run_metadata=metadata)
        assert value == 24
        assert session.run(z, {x: np.ones((2, 3))}) == 24  # without a trace, and compiled
    nodes = nodes_of(metadata)
    assert {"product", "relu", "total"} <= set(nodes)
    product = nodes["product"]
    description = product.output[0].tensor_description
    assert [d.size for d in description.shape.dim] == [2, 4]
    assert description.dtype == hf.float32.as_datatype_enum
    assert description.allocation_description.allocated_bytes == 32
    assert product.timeline_label.startswith("product = MatMul(")
    assert nodes["total"].all_start_micros >= product.all_start_micros
    assert nodes["total"].output[0].tensor_description.HasField("shape")  # of a scalar too
    assert not metadata.partition_graphs


def test_loops_record_every_iteration(graph):
    end = hf.while_loop(lambda i: i < 3, lambda i: hf.add(i, 1, name="more"), [0])
    metadata = hf.RunMetadata()
    with hf.Session() as session:
        assert session.run(end, options=TRACE, run_metadata=metadata) == 3
    names = [n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats]
    assert names.count("while/more") == 3


def test_partition_graphs_per_device(graph):
    x = hf.placeholder(hf.float32, [])
    with hf.device("/cpu:1"):
        y = hf.square(x, name="far")
    options = hf.RunOptions(output_partition_graphs=True)
    metadata = hf.RunMetadata()
    with hf.Session(config=hf.ConfigProto(device_count={"CPU": 2})) as session:
        assert session.run(y + 1, {x: 2.0}, options, metadata) == 5
    assert len(metadata.partition_graphs) == 2
    ops = [{n.op for n in g.node} for g in metadata.partition_graphs]
    assert all({"_Send", "_Recv"} <= o for o in ops)
    assert [any(n.name == "far" for n in g.node) for g in metadata.partition_graphs] == [
        False, True]
    assert not metadata.step_stats.dev_stats


def test_metadata_tells_of_the_last_step_alone(graph):
    metadata = hf.RunMetadata()
    with hf.Session() as session:
        one = hf.constant(1.0)
        session.run(one, None, hf.RunOptions(output_partition_graphs=True), metadata)
        assert metadata.partition_graphs
        session.run(one, run_metadata=metadata)
    assert not metadata.partition_graphs


def test_a_cluster_reports_every_task(graph):
    spec = hf.train.ClusterSpec({"worker": ["localhost:1", "localhost:2"]})
    servers = [hf.train.Server(spec, "worker", i) for i in range(2)]
    with hf.device("/job:worker/task:1"):
        far = hf.square(hf.Variable(3.0), name="far")
    near = hf.sqrt(far, name="near")
    metadata = hf.RunMetadata()
    with hf.Session(servers[0].target) as session:
        session.run(hf.global_variables_initializer())
        assert session.run(near, options=TRACE, run_metadata=metadata) == 3
        assert session.run(near) == 3
    where = {n.node_name: d.device for d in metadata.step_stats.dev_stats for n in d.node_stats}
    assert "/task:1/" in where["far"] and "/task:0/" in where["near"]
    for server in servers:
        server._server.close()


def test_callables_take_options(graph):
    x = hf.placeholder(hf.float32, [])
    metadata = hf.RunMetadata()
    with hf.Session() as session:
        run = session.make_callable(hf.square(x, name="square"), [x], accept_options=True)
        assert run(3.0, options=TRACE, run_metadata=metadata) == 9
    assert "square" in nodes_of(metadata)


def test_failures_keep_the_record_of_what_ran(graph):
    good = hf.square(hf.Variable(3.0, name="v"), name="good")
    with hf.control_dependencies([good]):
        bad = hf.Assert(False, [good])
    metadata = hf.RunMetadata()
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(bad, options=TRACE, run_metadata=metadata)
    assert "good" in nodes_of(metadata)


def test_wrong_types_are_refused(graph):
    x = hf.constant(1.0)
    with hf.Session() as session:
        with pytest.raises(TypeError, match="RunOptions"):
            session.run(x, options=3)
        with pytest.raises(TypeError, match="RunMetadata"):
            session.run(x, run_metadata={})


def test_timeline(graph):
    x = hf.placeholder(hf.float32, [2, 2])
    y = hf.nn.relu(hf.matmul(x, x, name="product"), name="relu")
    metadata = hf.RunMetadata()
    with hf.Session() as session:
        session.run(y, {x: np.eye(2)}, TRACE, metadata)
    trace = json.loads(Timeline(metadata.step_stats).generate_chrome_trace_format(
        show_memory=True))
    regions = {e["args"]["name"]: e for e in trace["traceEvents"] if e["ph"] == "X"}
    assert regions["product"]["name"] == "MatMul" and regions["relu"]["args"]["input0"] == "product"
    assert {e["ph"] for e in trace["traceEvents"]} == {"M", "X", "s", "t", "C"}


def test_costs_are_measured_every_so_many_runs():
    options = hf.GraphOptions(build_cost_model=2, build_cost_model_after=1)
    w = hf.Variable([[2.0]], name="w")
    y = hf.matmul(w, hf.exp(w), name="y")
    measured = []
    with hf.Session(config=hf.ConfigProto(graph_options=options)) as session:
        session.run(w.initializer)
        session.run(y)
        for _ in range(4):
            metadata = hf.RunMetadata()
            session.run(y, run_metadata=metadata)
            measured.append(metadata.HasField("cost_graph"))
            if measured[-1]:
                nodes = {n.name: n for n in metadata.cost_graph.node}
    assert measured == [False, True, False, True]
    assert nodes["y"].compute_cost > 0 and nodes["y"].output_info[0].size == 4
    preceding = {i.preceding_node for i in nodes["y"].input_info}
    assert nodes["Exp"].id in preceding


def test_constants_are_in_the_record_once(graph):
    doubled = hf.placeholder(hf.float32, [2], name="x") * hf.constant([1.0, 2.0], name="factors")
    end = hf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], name="loop")
    metadata = hf.RunMetadata()
    with hf.Session() as session:
        session.run([doubled, end], {"x:0": [1, 1]}, options=TRACE, run_metadata=metadata)
    names = [n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats]
    assert names.count("factors") == 1
    description = nodes_of(metadata)["factors"].output[0].tensor_description
    assert [d.size for d in description.shape.dim] == [2]
