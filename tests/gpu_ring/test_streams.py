"""Streams, transfers by pinned memory, and regions that are launched as one graph.

The stand-in raises where something is used before it is complete, so that most of these only have
to run.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gpu_ring.conftest import real_gpus
from gpu_ring.test_workloads import gpu_of, losses

import hpcflow as hf
from hpcflow import config
from hpcflow.host.tuning import gpu as tuning
from hpcflow.host.tuning import runtime
from hpcflow.platform import device_lib
from hpcflow.resources import variables
from hpcflow.runtime.executor import device as devices
from hpcflow.runtime.executor.gpu.streams import NotRecordableError
from hpcflow.tools import timeline
from hpcflow.tools.gpu_check.streams import counted_waits


@pytest.fixture
def session() -> Iterator[Any]:
    """A session in a graph whose ops go to the GPU."""
    config_proto = hf.ConfigProto(allow_soft_placement=True)
    with hf.Graph().as_default(), hf.device("/gpu:0"), hf.Session(config=config_proto) as opened:
        yield opened


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions of two ops and more are launched as graphs."""
    from hpcflow.host.tuning import compiler

    monkeypatch.setattr(config.flags, "cuda_graphs", True)
    monkeypatch.setattr(compiler, "RECORDED_FEWEST", 2)


# ---------------------------------------------------------------- transfers

@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (300, 7), (700, 1000), (3, 1 << 20)])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex64])
def test_there_and_back(shape: tuple[int, ...], dtype: Any, session: Any) -> None:
    gpu = gpu_of(session)
    value = np.random.default_rng(0).integers(-100, 100, shape).astype(dtype)
    kept = value.copy()
    there = gpu.to_device(value)
    value[...] = 0  # the caller's memory is the caller's again
    found = gpu.to_host(there)
    np.testing.assert_array_equal(found, kept)
    assert found.dtype == dtype and np.shape(found) == shape
    again = gpu.to_host(gpu.entered(lambda: there.T)())  # not in C order
    np.testing.assert_array_equal(again, kept.T)


def test_a_fetch_is_the_clients(session: Any) -> None:
    """It may be written to, and later steps leave it alone; so with large ones, which stay in the
    pinned memory that they came in."""
    for size in (10, tuning.COPY_BESIDE_BYTES):
        x = hf.Variable(hf.zeros([size]))
        session.run(x.initializer)
        step = x.assign_add(hf.ones([size]))
        found = [session.run(step) for _ in range(4)]
        found[0][...] = -1
        for i, value in enumerate(found):
            np.testing.assert_array_equal(value, np.full(size, i + 1 if i else -1, np.float32))


def test_feeds_in_turn(session: Any) -> None:
    """Their buffers serve again, behind the kernels that read them."""
    x = hf.placeholder(hf.float32, [tuning.COPY_BESIDE_BYTES // 4])
    total = hf.Variable(0.0)
    add = total.assign_add(hf.reduce_max(x))
    session.run(total.initializer)
    for i in range(20):
        session.run(add.op, {x: np.full(x.shape.as_list(), i, np.float32)})
    assert session.run(total) == sum(range(20))


def test_one_wait_for_all_fetches(session: Any) -> None:
    x = hf.placeholder(hf.float32, [8])
    small = [x + float(i) for i in range(5)]
    large = hf.tile(x, [tuning.COPY_BESIDE_BYTES // 8])
    for fetches in (small, [large]):
        session.run(fetches, {x: np.ones(8)})
        with counted_waits(gpu_of(session)) as waits:
            found = session.run(fetches, {x: np.arange(8)})
        assert len(waits) <= 1
    np.testing.assert_array_equal(found[0][:8], np.arange(8))


def test_the_programs_stream_stays_current(session: Any) -> None:
    """A step leaves the current stream of CuPy as it was, also if it fails."""
    current = gpu_of(session).xp.cuda.get_current_stream
    before = current()
    x = hf.placeholder(hf.float32, [2, 2])
    y = hf.matrix_inverse(x) + 1.0
    session.run(y, {x: np.eye(2)})
    with pytest.raises(hf.errors.OpError):
        session.run(hf.check_numerics(y * np.inf, "wrong"), {x: np.eye(2)})
    assert current() == before


def test_from_several_threads(session: Any) -> None:
    x = hf.placeholder(hf.float32, [tuning.COPY_BESIDE_BYTES // 4])
    y = x * 2.0
    wrong: list[int] = []

    def run(number: int) -> None:
        value = np.full(x.shape.as_list(), number, np.float32)
        for _ in range(5):
            if not (session.run(y, {x: value}) == 2 * number).all():
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_too_little_memory(session: Any) -> None:
    """The message says what was there; the session goes on."""
    rows = hf.placeholder(hf.int32, [])
    kept = hf.Variable(hf.ones([1024, 256]), name="weights")
    total = hf.reduce_sum(hf.ones([rows, 1 << 20]) + kept[0, 0])
    session.run(kept.initializer)
    too_many = max(2 * gpu_of(session).memory_limit() >> 22, 1 << 22)
    with pytest.raises(hf.errors.ResourceExhaustedError) as caught:
        session.run(total, {rows: too_many})
    for text in ("live on", "device:GPU:0", "1 variables of this task: 1 MiB", "'weights' 1 MiB",
                 "of type Fill"):
        assert text in str(caught.value)
    assert session.run(total, {rows: 1}) == 2.0 * (1 << 20)


@pytest.mark.parametrize("grows", [False, True])
def test_a_part_of_the_memory(grows: bool) -> None:
    """All of it at once, unless it is to grow; a number of bytes that CuPy cannot take is less."""
    options = hf.GPUOptions(per_process_gpu_memory_fraction=0.123, allow_growth=grows)
    with hf.Session(config=hf.ConfigProto(gpu_options=options)) as session:
        gpu = gpu_of(session)
        pool = gpu.xp.get_default_memory_pool()
        try:
            assert pool.get_limit() == int(gpu.streams.device.mem_info[1] * 0.123)
            assert grows or pool.get_limit() - 512 < pool.total_bytes() <= pool.get_limit()
            assert session.list_devices()[-1].memory_limit_bytes == pool.get_limit()
            assert device_lib.list_local_devices()[-1].memory_limit == pool.get_limit()
        finally:
            pool.set_limit(size=0)


def test_a_smaller_part_of_the_memory_than_before() -> None:
    """What was taken is not taken back; no more is."""
    for fraction in (0.2, 0.1):
        options = hf.GPUOptions(per_process_gpu_memory_fraction=fraction)
        with hf.Session(config=hf.ConfigProto(gpu_options=options)) as session:
            gpu = gpu_of(session)
            pool = gpu.xp.get_default_memory_pool()
            assert pool.get_limit() == int(gpu.streams.device.mem_info[1] * fraction)
    pool.set_limit(size=0)
    pool.free_all_blocks()


def test_a_part_that_others_have(monkeypatch: pytest.MonkeyPatch, stand_in_only: None) -> None:
    """It is taken as far as it is there, when it is needed."""
    with hf.Session() as session:
        gpu = gpu_of(session)

    def taken(self: Any, size: int) -> None:
        raise MemoryError("out of memory")

    monkeypatch.setattr(type(gpu.xp.get_default_memory_pool()), "malloc", taken)
    options = hf.GPUOptions(per_process_gpu_memory_fraction=0.25)
    with hf.Session(config=hf.ConfigProto(gpu_options=options)) as session:
        assert session.run(hf.constant(2.0)) == 2.0


def test_a_session_without_a_part_of_the_memory() -> None:
    """It is not held to what an earlier one asked for."""
    options = hf.GPUOptions(per_process_gpu_memory_fraction=0.25)
    for config_proto, most in ((hf.ConfigProto(gpu_options=options), 0.25), (None, 0)):
        with hf.Session(config=config_proto) as session:
            gpu = gpu_of(session)
            assert gpu.xp.get_default_memory_pool().get_limit() == int(
                gpu.streams.device.mem_info[1] * most)


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("grows", [True, False])
def test_graphs_take_their_part_of_the_limit(grows: bool) -> None:
    """Graphs have their memory from what the limit leaves, of a part that was taken at once too."""
    options = hf.GPUOptions(per_process_gpu_memory_fraction=0.25, allow_growth=grows)
    with hf.Graph().as_default(), hf.Session(
            config=hf.ConfigProto(gpu_options=options)) as session:
        gpu = gpu_of(session)
        pool, most = gpu.xp.get_default_memory_pool(), gpu.memory_limit()
        fed = np.ones([256, 256], np.float32)
        x, y = hf.placeholder(hf.float32, fed.shape), hf.Variable(fed)
        step = y.assign(hf.matmul(hf.exp(-hf.matmul(x, y)), y)).op
        session.run(hf.global_variables_initializer())
        for _ in range(5):
            session.run(step, {x: fed})
        held, used = sum(r.graph_bytes() for r in gpu.recorded), pool.used_bytes()
        assert sum(r.launches for r in gpu.recorded) and held >= fed.nbytes
        assert pool.get_limit() == gpu.memory_limit() == most >= pool.total_bytes()
        assert grows or pool.total_bytes() > most - 512
        for region in gpu.recorded:
            gpu.entered(region.close)()
        assert pool.used_bytes() <= used - held


def test_a_trace_has_rows_of_streams(session: Any) -> None:
    """Kernels and copies are in rows of their own, within the step by the host's clock."""
    x = hf.placeholder(hf.float32, [tuning.COPY_BESIDE_BYTES // 4])
    y = hf.exp(x, name="grown") + 1.0
    metadata = hf.RunMetadata()
    options = hf.RunOptions(trace_level=hf.RunOptions.FULL_TRACE)
    before = time.time_ns()
    found = session.run(y, {x: np.zeros(x.shape.as_list())}, options, metadata)
    after = time.time_ns()
    np.testing.assert_array_equal(found, np.full(x.shape.as_list(), 2.0, np.float32))
    rows = {d.device.rpartition("/device:GPU:0")[2]: d.node_stats
            for d in metadata.step_stats.dev_stats if "GPU" in d.device}
    assert set(rows) == {"", "/stream:compute", "/stream:up", "/stream:down"}
    assert "grown" in [n.node_name for n in rows["/stream:compute"]]
    assert rows["/stream:up"][0].node_name == f"to the GPU {tuning.COPY_BESIDE_BYTES} bytes"
    for stats in (n for name in rows for n in rows[name] if "= Const(" not in n.timeline_label):
        assert before <= stats.all_start_nanos < stats.all_start_nanos + stats.op_end_rel_nanos
        if real_gpus():
            assert stats.all_start_nanos + stats.op_end_rel_nanos < after + 1_000_000
    assert "stream:compute" in timeline.Timeline(
        metadata.step_stats).generate_chrome_trace_format()
    session.run(y, {x: np.zeros(x.shape.as_list())})  # not watched any more
    assert gpu_of(session).transfers._watcher is None


# ---------------------------------------------------------------- graphs

def _recorded(session: Any) -> list[str]:
    return [r.describe() for r in gpu_of(session).recorded]


def _launches(session: Any) -> int:
    return sum(r.launches for r in gpu_of(session).recorded)


@pytest.mark.usefixtures("graphs")
def test_training_by_graphs() -> None:
    np.testing.assert_allclose(losses("figure1", 1, 8), losses("figure1", 0, 8), rtol=1e-5)


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("name", ["vgg", "lstm", "word2vec"])
def test_networks_by_graphs(name: str) -> None:
    """With random numbers, variables that are read after they are written, and rows by number."""
    np.testing.assert_allclose(losses(name, 1, 5), losses(name, 0, 5), rtol=2e-3)


@pytest.mark.usefixtures("graphs")
def test_unknown_batches_by_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that follow from shapes, and random ones that the host draws for every launch."""
    monkeypatch.setattr(runtime, "SHAPES_MOST_STEPS", 0)  # no steps of their own for some shapes

    def found(gpus: int) -> list[float]:
        with hf.Graph().as_default():
            hf.set_random_seed(4)  # Adam enlarges rounding by others, as those of 1
            x, y = hf.placeholder(hf.float32, [None, 6]), hf.placeholder(hf.int32, [None])
            h = hf.layers.batch_normalization(hf.layers.dense(x, 9, hf.nn.relu), training=True)
            logits = hf.layers.dense(hf.layers.dropout(h, 0.5, training=True), 4)
            loss = hf.reduce_mean(hf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=y, logits=logits))
            train = hf.train.AdamOptimizer(0.01).minimize(loss)
            with hf.Session(config=hf.ConfigProto(device_count={"GPU": gpus})) as session:
                session.run(hf.global_variables_initializer())
                losses = [session.run([loss, train], {
                    x: np.sin(np.arange(6.0 * n)).reshape(n, 6), y: np.arange(n) % 4})[0]
                    for n in [8] * 5 + [5] * 5 + [8, 5] * 2]
                assert not gpus or _launches(session) == 10, _recorded(session)
                return losses

    np.testing.assert_allclose(found(1), found(0), rtol=1e-4)


@pytest.mark.usefixtures("graphs", "stand_in_only")
def test_no_graph_without_room(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph has memory of its own; where that is not there twice, the region runs as before."""
    pool = gpu_of(session).xp.get_default_memory_pool()
    monkeypatch.setattr(type(gpu_of(session).streams.device), "mem_info",
                        property(lambda device: (512 - pool.free_bytes(), device._gpu.memory)))
    x = hf.placeholder(hf.float32, [4])
    y = hf.exp(x) * 2.0 + 1.0
    for _ in range(5):
        session.run(y, {x: np.zeros(4)})
    assert not _launches(session) and "too little memory" in "".join(_recorded(session))


@pytest.mark.usefixtures("graphs")
def test_a_graph_takes_one_block(session: Any) -> None:
    """Values that are each larger than the one before would fit into no block that was taken for
    one of these; together they need no more than the last ones do."""
    x, w = hf.Variable(hf.ones([128, 128])), hf.Variable(hf.ones([128, 512]))
    total = hf.constant(0.0)
    for k in range(1, 9):
        total = total + hf.reduce_max(hf.matmul(hf.tile(x + total, [k, 1]), w))
    session.run(hf.global_variables_initializer())
    for _ in range(3):
        session.run(total)
    assert _launches(session), _recorded(session)
    last = 8 * 128 * (128 + 512) * 4
    assert sum(r.graph_bytes() for r in gpu_of(session).recorded) < 1.2 * last + (1 << 20)


@pytest.mark.usefixtures("graphs")
def test_regions_go_with_their_session() -> None:
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder(hf.float32, [4])
        y = hf.exp(x) * 2.0 + 1.0
        for _ in range(5):
            session.run(y, {x: np.zeros(4)})
        gpu = gpu_of(session)
        assert gpu.recorded
    session.close()
    del session
    gc.collect()
    assert not gpu.recorded


@pytest.mark.usefixtures("graphs")
def test_shapes_come_out_of_a_graph(session: Any) -> None:
    x = hf.placeholder(hf.float32, [None, 2])
    y = hf.exp(x) * hf.cast(hf.shape(x)[0], hf.float32)
    for n in [3] * 5 + [4] * 5:
        value, shape = session.run([y, hf.shape(y)], {x: np.ones((n, 2))})
        np.testing.assert_allclose(value, np.full((n, 2), np.e * n, np.float32), rtol=1e-6)
        np.testing.assert_array_equal(shape, [n, 2])


@pytest.mark.usefixtures("graphs")
def test_a_graph_takes_new_feeds(session: Any) -> None:
    x = hf.placeholder(hf.float32, [4])
    y = hf.exp(x) * 2.0 + 1.0
    for i in range(6):
        np.testing.assert_allclose(session.run(y, {x: [i, 0, 1, 2]}),
                                   np.exp([i, 0, 1, 2], dtype=np.float32) * 2 + 1, rtol=1e-6)
    assert _launches(session) == 4, _recorded(session)


@pytest.mark.usefixtures("graphs")
def test_a_variable_that_moves(session: Any) -> None:
    """Its graph is recorded anew, and the values are right all the time."""
    x = hf.Variable(hf.zeros([4]))
    add = x.assign(x * 1.0 + 1.0)
    session.run(x.initializer)
    state = next(s for _, _, s in gpu_of(session).resources.items("variable"))
    for i in range(12):
        if i in (5, 8):
            state.value = gpu_of(session).entered(lambda: state.value.copy())()
            variables.moved()
            gc.collect()
        np.testing.assert_array_equal(session.run(add), np.full(4, i + 1, np.float32))
    assert _launches(session) >= 5, _recorded(session)


@pytest.mark.usefixtures("graphs")
def test_a_value_outlives_its_graph(session: Any) -> None:
    """What a step hands out stays as it is when the graph is launched again."""
    x = hf.Variable(hf.zeros([4]))
    handle = hf.get_session_handle(x.assign_add(hf.ones([4])) * 10.0)
    session.run(x.initializer)
    kept = [session.run(handle) for _ in range(6)]
    for i, value in enumerate(kept):
        np.testing.assert_array_equal(value.eval(), np.full(4, 10.0 * (i + 1), np.float32))


@pytest.mark.usefixtures("graphs")
def test_a_session_that_closes_gives_the_memory_of_its_graphs_back(session: Any) -> None:
    fed = np.ones([1 << 10, 1 << 10], np.float32)
    x, y = hf.placeholder(hf.float32, fed.shape), hf.Variable(fed)
    step = y.assign(hf.matmul(hf.exp(-hf.matmul(x, y)), y)).op
    gpu = gpu_of(session)
    held = gpu.streams.memory

    def kept() -> int:
        gc.collect()
        gpu.xp.get_default_memory_pool().free_all_blocks()
        held.forget()
        return held.most()

    before = kept()  # by whatever else is in this process
    session.run(hf.global_variables_initializer())
    for _ in range(4):
        session.run(step, {x: fed})
    regions = gpu_of(session).recorded
    assert _launches(session), _recorded(session)
    assert sum(r.graph_bytes() for r in regions) >= 4 << 20
    assert held.most() >= before + (12 << 20)  # a variable, and what the graph computes
    session.close()
    assert not any(r.graph_bytes() for r in regions)
    del regions  # and with them constants on the GPU
    assert kept() < before + (1 << 20)  # no buffers of feeds either


@pytest.mark.usefixtures("graphs")
def test_an_index_out_of_range_in_a_graph(session: Any) -> None:
    table = hf.Variable(hf.ones([4, 2]))
    ids = hf.placeholder(hf.int32, [3])
    total = hf.reduce_sum(hf.gather(table, ids) * 2.0)
    session.run(table.initializer)
    for _ in range(5):
        assert session.run(total, {ids: [0, 1, 3]}) == 12.0
    assert _launches(session), _recorded(session)
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"7[^\n]*\b4\b"):
        session.run(total, {ids: [0, 7, 2]})
    assert session.run(total, {ids: [0, 1, 3]}) == 12.0


@pytest.mark.usefixtures("graphs")
def test_what_is_read_on_the_host_is_complete(session: Any) -> None:
    """Also where the kernels before it are on the stream for recording; and what they found wrong
    is not lost."""
    x = hf.placeholder(hf.float32, [6])
    shape, ids = hf.cast(x[:2], hf.int32), hf.cast(x[2:], hf.int32)
    y = hf.gather(hf.reshape(hf.exp(x), shape), ids) * 2.0
    for _ in range(6):
        assert session.run(y, {x: [2, 3, 0, 1, 0, 1]}).shape == (4, 3)
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"7[^\n]*\b2\b"):
            session.run(y, {x: [2, 3, 0, 7, 0, 1]})


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize(("build", "reason"), [
    (lambda x: hf.random_shuffle(x + 1.0) * 2.0, "RandomShuffle keeps state on the host"),
    (lambda x: hf.boolean_mask(x, x > 0.0) * 2.0, "not permitted when stream is capturing"),
])
def test_what_is_not_recorded(build: Any, reason: str, session: Any) -> None:
    """Such a region runs as before, and says why."""
    x = hf.placeholder(hf.float32, [64])
    y = hf.reduce_sum(build(x) * 0.0)
    for _ in range(6):
        assert session.run(y, {x: np.ones(64)}) == 0.0
    assert not _launches(session)
    if not real_gpus():
        assert reason in "\n".join(_recorded(session))


def test_transfers_are_refused_while_recording(session: Any) -> None:
    gpu = gpu_of(session)
    there = gpu.to_device(np.ones(3, np.float32))
    gpu.streams.recorded_by = threading.get_ident()
    try:
        for move in (lambda: gpu.to_device(np.ones(3)), lambda: gpu.to_host(there)):
            with pytest.raises(NotRecordableError):
                move()
    finally:
        gpu.streams.recorded_by = 0
    assert devices.device_types()


# ---------------------------------------------------------------- the stand-in's own rules

@pytest.mark.usefixtures("stand_in_only")
def test_the_stand_in_sees_races(session: Any) -> None:
    from gpu_ring.fake_cuda import RaceError

    gpu = gpu_of(session)
    xp, streams = gpu.xp, gpu.streams
    with pytest.raises(RaceError, match="default stream"):
        xp.ones(3)
    a = gpu.entered(lambda: xp.ones(3, np.float32))()
    with streams.down, pytest.raises(RaceError, match="has not done with"):
        a + a
    streams.down.wait_event(streams.event(streams.compute))
    with streams.down:
        a + a
    pinned = xp.cuda.alloc_pinned_memory(12)
    xp.cuda.runtime.memcpyAsync(pinned.ptr, a.data.ptr, 12, 2, streams.down.ptr)
    assert bytes(pinned) != np.ones(3, np.float32).tobytes()  # not there yet
    streams.down.synchronize()
    assert bytes(pinned) == np.ones(3, np.float32).tobytes()
    xp.cuda.runtime.memcpyAsync(a.data.ptr, pinned.ptr, 12, 1, streams.down.ptr)
    pinned[0] = 7
    with pytest.raises(RaceError, match="before what reads it"):
        streams.down.synchronize()
