"""The simulator and the cost-model placer: predictions that must follow from the description."""

from __future__ import annotations

import itertools
import json

import pytest

import hpcflow as hf
from hpcflow import config, kernels
from hpcflow.compiler.distribute.costs import MeasuredCosts, Rates, cost_of
from hpcflow.compiler.rewrite.prune import prune
from hpcflow.placement import Placement, plan
from hpcflow.simulator.cluster import Cluster, Job, Link
from hpcflow.simulator.engine import Simulation
from hpcflow.simulator.measure import link_from_pingpong
from hpcflow.simulator.program import compile_program
from hpcflow.tools.cli import main as command

WORKER = "/job:worker/replica:0/task:0"


@pytest.fixture(autouse=True)
def graph():
    kernels.load()
    with hf.Graph().as_default() as graph:
        yield graph


def cluster(ps=1, workers=1, **options):
    options.setdefault("devices", {"cpu": Rates(1e12, 1e11, 1e11, 0.0, 1e9)})
    return Cluster([Job("ps", ps), Job("worker", workers)], between=Link(1e-6, 1e9, 0.0),
                   step_overhead=0.0, **options)


def training(ps=1):
    with hf.device(hf.train.replica_device_setter(ps, worker_device="/job:worker/task:0")):
        x = hf.placeholder(hf.float32, [100, 1000])
        w = hf.get_variable("w", [1000, 500])
        loss = hf.reduce_mean(hf.square(hf.matmul(x, w)))
        return x, hf.train.GradientDescentOptimizer(0.1).minimize(loss)


def simulate(fetch, feeds, where, **options):
    return Simulation(compile_program([fetch], feeds, where, WORKER), where, **options).run()


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_masters_average_gradients_together(workers):
    """Compute, then two rounds in which everybody receives all but its part of 2 MB, twice."""
    with hf.device("/job:worker/task:0"):
        x = hf.placeholder(hf.float32, [100, 1000])
        w = hf.get_variable("w", [1000, 500])
        loss = hf.reduce_mean(hf.square(hf.matmul(x, w)))
        plain = hf.train.GradientDescentOptimizer(0.1)
        train = hf.mpi.DistributedOptimizer(plain).minimize(loss)
    where = cluster(0, workers)
    program = compile_program([train], [x], where, WORKER)
    computed = sum(work.seconds for work in program.work)
    sent = 2 * (workers - 1) / workers * 2e6 / 1e9
    latency = 2 * 1e-6 if workers > 1 else 0
    result = Simulation(program, where).run()
    assert len(result.step_times) == 3 * workers
    assert result.step_time == pytest.approx(computed + sent + latency, rel=1e-3)
    # One master of each step is slow, and all of them wait for it.
    factors = itertools.cycle([3.0] + [1.0] * (workers - 1))
    slow = Simulation(program, where, straggle=lambda rng: next(factors)).run()
    assert min(slow.step_times) > 1.05 * result.step_time


def node_of(tensor):
    return next(n for n in prune([tensor], [], "/job:a/replica:0/task:0/device:CPU:0").nodes
                if n.name == tensor.op.name)


def test_static_costs():
    a, b = hf.placeholder(hf.float32, [10, 20]), hf.placeholder(hf.float32, [20, 30])
    product = cost_of(node_of(hf.matmul(a, b)))
    assert product.flops == 2 * 10 * 20 * 30 and product.dense
    assert product.nbytes == 4 * (200 + 600 + 300)
    image = hf.placeholder(hf.float32, [2, 8, 8, 3])
    taps = hf.placeholder(hf.float32, [3, 3, 3, 16])
    convolution = cost_of(node_of(hf.nn.conv2d(image, taps, [1, 1, 1, 1], "SAME")))
    assert convolution.flops == 2 * (2 * 8 * 8 * 16) * 27
    assert cost_of(node_of(hf.identity(a))).nbytes == 0
    assert cost_of(node_of(a + 1.0)).flops == 200


@pytest.mark.parametrize("make", [hf.gather, hf.scatter_add])
def test_sparse_ops_cost_the_rows_that_they_touch(make):
    table = hf.Variable(hf.zeros([10**6, 8]))
    ids, rows = hf.placeholder(hf.int32, [16]), hf.placeholder(hf.float32, [16, 8])
    done = make(table, ids) if make is hf.gather else make(table, ids, rows)
    assert 2 * rows.shape.num_elements() * 4 <= cost_of(node_of(done)).nbytes < 4096


def test_rates_take_the_longer_of_arithmetic_and_memory():
    rates = Rates(1e9, 1e8, 1e6, 1.0)
    a = hf.placeholder(hf.float32, [10, 10])
    assert rates.seconds(cost_of(node_of(a + 1.0))) == pytest.approx(1 + 804e-6, rel=1e-2)


def test_messages_take_their_bytes():
    x, train = training()
    result = simulate(train, [x], cluster())
    # 2 MB there and 2 MB back at 1 GB/s; arithmetic takes its own time.
    assert result.bytes_per_step == 2 * 4 * 1000 * 500
    arithmetic = 2 * 2 * 100 * 1000 * 500 / 1e12
    assert 0.004 + arithmetic < result.step_time < 2 * (0.004 + arithmetic)


def test_more_workers_share_the_server():
    x, train = training()
    times = [simulate(train, [x], cluster(workers=n)).step_time for n in (1, 8, 64)]
    assert times[0] < times[1] < times[2]
    # In the limit the server's port decides: 2 MB out and 2 MB in at 1 GB/s a worker.
    assert times[2] == pytest.approx(64 * 0.002, rel=0.25)
    two = simulate(hf.group(train, training_of_another()), [x], cluster(2, 64)).loads
    assert set(two) == set(range(66))


def training_of_another():
    with hf.device("/job:ps/task:1"):
        return hf.assign_add(hf.get_variable("other", [1000, 500]), hf.ones([1000, 500])).op


def test_two_servers_are_faster_than_one():
    times = []
    for ps in (1, 2):
        with hf.Graph().as_default():
            with hf.device(hf.train.replica_device_setter(ps, worker_device="/job:worker/task:0")):
                ws = [hf.get_variable(f"w{i}", [1000, 500]) for i in range(2)]
                total = hf.add_n([hf.reduce_sum(hf.square(w)) for w in ws])
                train = hf.train.GradientDescentOptimizer(0.1).minimize(total)
            times.append(simulate(train, [], cluster(ps, 16)).step_time)
    assert times[1] < 0.7 * times[0]


def test_shared_cores_are_slower():
    with hf.device("/job:worker/task:0"):
        a = hf.placeholder(hf.float32, [500, 500])
        y = hf.matmul(a, a)
    alone = simulate(y, [a], cluster(1, 4))
    shared = simulate(y, [a], cluster(1, 4, ranks_per_node=5, cores_per_node=1))
    assert shared.step_time > 2.5 * alone.step_time


def test_backup_workers_hide_stragglers():
    x, train = training()
    where = cluster(workers=10, devices={"cpu": Rates(1e10, 1e11, 1e11, 0.0, 1e9)})
    program = compile_program([train], [x], where, WORKER)

    def straggle(rng):
        return 20.0 if rng.random() < 0.1 else 1.0

    times = [Simulation(program, where, synchronous=True, backup=b, straggle=straggle).run(
        20).step_time for b in (0, 3)]
    assert times[1] < 0.8 * times[0]
    again = Simulation(program, where, synchronous=True, straggle=straggle).run(20).step_time
    assert again == times[0]  # the seed decides


def test_thousands_of_ranks():
    x, train = training()
    result = simulate(train, [x], cluster(4, 3000))
    assert len(result.step_times) == 3 * 3000 and result.loads[0].compute > 0


def test_measured_times_replace_estimates():
    with hf.device("/job:worker/task:0"):
        y = hf.square(hf.placeholder(hf.float32, [10], name="x"), name="slow")
    metadata = hf.RunMetadata()
    stats = metadata.step_stats.dev_stats.add(device="d").node_stats.add(node_name="slow")
    stats.op_end_rel_nanos = 500_000_000
    measured = MeasuredCosts([metadata.step_stats])
    where = cluster()
    x = hf.get_default_graph().get_tensor_by_name("x:0")
    program = compile_program([y], [x], where, WORKER, measured)
    assert Simulation(program, where).run().step_time == pytest.approx(0.5, rel=0.01)


# ---------------------------------------------------------------- descriptions


def test_descriptions_go_to_files_and_back(tmp_path):
    one = cluster(2, 3, ranks_per_node=4, cores_per_node=2)
    one.save(tmp_path / "c.json")
    assert Cluster.load(tmp_path / "c.json").to_json() == one.to_json()
    assert one.resized(worker=7).size == 9 and one.size == 5


@pytest.mark.parametrize(("data", "message"), [
    ({}, "needs 'jobs'"), ({"jobs": [{"name": "a"}]}, "wrong"),
    ({"jobs": [{"name": "a", "tasks": 1}], "speed": 3}, "speed"),
    ({"jobs": [{"name": "a", "tasks": 1, "devices": ["gpu"]}]}, "not described"),
])  # fmt: skip
def test_wrong_descriptions(data, message):
    with pytest.raises(ValueError, match=message):
        Cluster.from_json(data)


def test_links_from_measurements():
    rows = [{"case": "round trip, 4 B", "program": "hpcflow", "p10_us": 4.0, "median_us": 5.0},
            {"case": "round trip, 64 MB", "program": "hpcflow", "median_us": 20000.0}]
    link = link_from_pingpong(rows)
    assert link.latency == pytest.approx(2e-6)
    assert link.bandwidth == pytest.approx((64 << 20) / 0.01)
    with pytest.raises(ValueError, match="pingpong"):
        link_from_pingpong([])


# ---------------------------------------------------------------- placement


def branches(count):
    """Independent chains of products, which may be anywhere."""
    x = hf.placeholder(hf.float32, [400, 400], name="x")
    ends = []
    for i in range(count):
        y = x
        for _ in range(4):
            y = hf.matmul(y, y, name=f"branch{i}/product")
        ends.append(hf.reduce_sum(y, name=f"branch{i}/sum"))
    return x, hf.add_n(ends)


def pair(**link):
    return Cluster([Job("worker", 2)], {"cpu": Rates(1e10, 1e9, 1e10, 1e-6, 1e9)},
                   between=Link(**link))


def test_independent_work_is_spread():
    x, total = branches(2)
    fast = plan(total, [x], pair(latency=1e-6, bandwidth=1e10), "/job:worker/task:0")
    tasks = {fast.device_of(f"branch{i}/product_3") for i in range(2)}
    assert len(tasks) == 2
    chain = {fast.device_of(f"branch0/product_{k}") for k in (1, 2, 3)}
    assert len(chain) == 1  # chains stay together


def test_a_slow_link_keeps_work_together():
    x, total = branches(2)
    slow = plan(total, [x], pair(latency=1.0, bandwidth=1e6), "/job:worker/task:0")
    assert len(set(slow.values())) == 1


def test_requests_and_colocation_are_kept():
    with hf.device("/job:worker/task:1"):
        v = hf.get_variable("v", [10])
    update = hf.assign_add(v, hf.ones([10]), name="update")
    found = plan(update.op, [], pair(latency=1e-6, bandwidth=1e10), "/job:worker/task:0")
    assert "/task:1/" in found["v"] and found["update"] == found["v"]


def test_memory_limits_a_device():
    small = Cluster([Job("worker", 2)], {"cpu": Rates(memory=1.5e6)}, between=Link())
    vs = [hf.get_variable(f"v{i}", [250_000], initializer=hf.zeros_initializer())
          for i in range(2)]
    reads = [hf.reduce_sum(v) for v in vs]
    found = plan(reads, [], small, "/job:worker/task:0")
    assert found["v0"] != found["v1"]


def test_measured_times_change_a_placement():
    x, total = branches(2)
    metadata = hf.RunMetadata()
    device = metadata.step_stats.dev_stats.add(device="d")
    for op in hf.get_default_graph().get_operations():
        device.node_stats.add(node_name=op.name).op_end_rel_nanos = 1
    found = plan(total, [x], pair(latency=1e-3, bandwidth=1e10), "/job:worker/task:0",
                 [metadata])
    assert len(set(found.values())) == 1


def test_placement_files(tmp_path):
    x = hf.placeholder(hf.float32, [], name="x")
    y = hf.square(x, name="layer/square")
    placement = Placement({"layer/.*": "/device:CPU:1", "x": "/device:CPU:0"})
    placement.save(tmp_path / "p.txt")
    loaded = Placement.load(tmp_path / "p.txt")
    assert loaded == placement and loaded.device_of("layer/square") == "/device:CPU:1"
    assert loaded.device_of("other") is None
    loaded.apply(hf.get_default_graph())
    assert y.op.device == "/device:CPU:1"
    Placement().apply(hf.get_default_graph(), clear=True)
    assert not any(op.device for op in hf.get_default_graph().get_operations())
    (tmp_path / "q").write_text("a b c")
    with pytest.raises(ValueError, match="q:1: expected a pattern and a device"):
        Placement.load(tmp_path / "q")


def test_sessions_keep_to_a_file(tmp_path):
    x = hf.placeholder(hf.float32, [], name="x")
    y = hf.square(x, name="y")
    Placement({"y": "/cpu:1"}).save(tmp_path / "p.txt")
    config.flags.reload({"HPCFLOW_PLACEMENT": str(tmp_path / "p.txt")})
    metadata = hf.RunMetadata()
    try:
        with hf.Session(config=hf.ConfigProto(device_count={"CPU": 2})) as session:
            trace = hf.RunOptions(trace_level=hf.RunOptions.FULL_TRACE)
            assert session.run(y, {x: 3.0}, trace, metadata) == 9
    finally:
        config.flags.reload()
    assert Placement.of(metadata)["y"].endswith("CPU:1")
    with hf.device(Placement({"z.*": "/cpu:0"})):
        assert hf.identity(x, name="z1").op.device == "/device:CPU:0"


# ---------------------------------------------------------------- the command


def test_the_command(tmp_path, capsys):
    training()
    hf.train.export_meta_graph(str(tmp_path / "g.meta"))
    cluster().save(tmp_path / "c.json")
    rows = tmp_path / "rows.json"
    assert command(["simulate", str(tmp_path / "g.meta"), "--cluster", str(tmp_path / "c.json"),
                    "--sweep", "worker=1,100", "--json", str(rows)]) == 0
    assert "bottleneck" in capsys.readouterr().out
    one, hundred = json.loads(rows.read_text())
    assert hundred["step_ms"] > 10 * one["step_ms"]
    assert hundred["bottleneck"].startswith("ps") and not one["bottleneck"].startswith("ps")


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    training(2)
    hf.train.write_graph(hf.get_default_graph(), str(tmp_path), "g.pbtxt")
    cluster().save(tmp_path / "c.json")
    arguments = ["simulate", str(tmp_path / "g.pbtxt"), "--cluster", str(tmp_path / "c.json")]
    assert command(arguments) == 2
    assert "--fetch" in capsys.readouterr().err
    assert command([*arguments, "--fetch", "GradientDescent", "--tasks", "boss=3"]) == 2
    assert "no job 'boss'" in capsys.readouterr().err
    assert command(["simulate", "nothing.pb", "--cluster", str(tmp_path / "c.json")]) == 2
