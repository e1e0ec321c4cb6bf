"""The device itself: which GPUs a rank takes, several in one process, errors heard of later."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.comm.launch import Launch
from hpcflow.platform import device_lib
from hpcflow.runtime.executor import device as devices
from hpcflow.runtime.executor import gpus
from hpcflow.runtime.executor.gpus import GpuOptions, choose


def rank(local: int, of: int) -> Launch:
    return Launch("mpirun", local, of, of, local)


@pytest.mark.parametrize(("available", "wanted", "visible", "started", "expected"), [
    (4, None, None, None, [0, 1, 2, 3]), (4, 2, None, None, [0, 1]),
    (4, None, (2, 0), None, [2, 0]), (2, None, None, rank(1, 4), [1]),
    (2, None, None, rank(2, 4), [0]),
    (4, 2, None, rank(1, 2), [2, 3]), (4, None, (3, 1), rank(1, 2), [1]),
    (1, None, None, rank(3, 4), [0]), (1, 5, None, None, [0]), (0, None, None, None, []),
    (2, None, None, rank(0, 1), [0, 1]),
])
def test_gpus_of_a_rank(available: int, wanted: int | None, visible: Any, started: Any,
                        expected: list[int]) -> None:
    assert choose(available, wanted, GpuOptions(visible), started) == expected


@pytest.mark.parametrize(("ranks", "local", "said"), [(4, 0, True), (4, 1, False), (2, 0, False)])
def test_more_ranks_than_gpus(ranks: int, local: int, said: bool,
                              monkeypatch: pytest.MonkeyPatch,
                              recwarn: pytest.WarningsRecorder) -> None:
    """Are served; the first of the node says so, once."""
    monkeypatch.setattr(gpus, "launch", lambda: rank(local, ranks))
    gpus._warn.cache_clear()
    for _ in range(2):
        assert gpus.chosen_here(2, None, GpuOptions()) == [local % 2]
    texts = [str(w.message) for w in recwarn.list]
    assert texts == ["4 ranks of this node share 2 GPUs: each uses a part of one"] * said


def test_wrong_options() -> None:
    with pytest.raises(hf.errors.InvalidArgumentError, match="names GPU 3, but the machine has 2"):
        choose(2, None, GpuOptions((3,)), None)
    for options in ({"visible_device_list": "0,x"}, {"visible_device_list": "1,1"},
                    {"per_process_gpu_memory_fraction": 1.5}):
        config = hf.ConfigProto(gpu_options=hf.GPUOptions(**options))
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"visible_dev|memory_fraction"):
            hf.Session(config=config)


def test_options_of_a_session() -> None:
    options = GpuOptions.of(hf.ConfigProto(gpu_options=hf.GPUOptions(
        visible_device_list="1, 0", per_process_gpu_memory_fraction=0.5)))
    assert options == GpuOptions((1, 0), 0.5, False)
    assert GpuOptions.of(hf.ConfigProto()) == GpuOptions(None, 0.0, True)


def test_two_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trains on its own device, from threads of their own."""
    kind, count = devices._TYPES["GPU"]
    if count() < 2:
        if kind is devices.CupyDevice:
            pytest.skip("one GPU")
        monkeypatch.setitem(devices._TYPES, "GPU", (kind, lambda: 2))
    with hf.Graph().as_default():
        steps = []
        for i in range(2):
            with hf.device(f"/gpu:{i}"):
                x = hf.Variable(hf.ones([8, 8]))
                steps.append((x, x.assign(hf.matmul(x, x) * 0.25)))
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            threads = [threading.Thread(target=lambda s=s: [session.run(s[1].op)
                                                            for _ in range(5)]) for s in steps]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            found = session.run([x for x, _ in steps])
    for value in found:
        np.testing.assert_array_equal(value, np.full((8, 8), 2.0**31))


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "Gather": lambda table, ids: hf.gather(table.read_value(), ids),
    "GatherNd": lambda table, ids: hf.gather_nd(table.read_value(), ids[:, None]),
    "ScatterAdd": lambda table, ids: hf.scatter_add(table, ids, hf.ones([3, 2])),
    "UnsortedSegmentSum": lambda table, ids: hf.unsorted_segment_sum(hf.ones([3, 2]), ids, 4),
    "SparseSoftmaxCrossEntropyWithLogits":
        lambda table, ids: hf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=ids, logits=hf.ones([3, 4])),
}


@pytest.mark.parametrize("kind", list(WRONG))
@pytest.mark.parametrize("fetched", [True, False])
def test_index_errors(kind: str, fetched: bool) -> None:
    """They name op, value and device, whether the step fetches a value or not; the session then
    goes on."""
    with hf.Graph().as_default():
        table = hf.Variable(hf.ones([4, 2]))
        ids = hf.placeholder(hf.int32, [3])
        with hf.device("/gpu:0"):
            result = WRONG[kind](table, ids)
            total = hf.Variable(0.0).assign(hf.reduce_sum(result))
        fetch = result if fetched else total.op
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            session.run(fetch, {ids: [0, 1, 3]})
            with pytest.raises(hf.errors.InvalidArgumentError, match=r"7[^\n]*\b4\b") as caught:
                session.run(fetch, {ids: [0, 7, 2]})
            assert f"of type {kind}" in str(caught.value) and "device:GPU:0" in str(caught.value)
            session.run(fetch, {ids: [0, 1, 3]})


def test_flags_belong_to_threads() -> None:
    """A thread that takes its flags back, as when it records a graph, leaves those of others."""
    from hpcflow.kernels import late_errors

    class Module:
        asnumpy = staticmethod(np.asarray)

    start = late_errors.noted()
    other = threading.Thread(
        target=lambda: late_errors.note(Module, np.True_, lambda: ValueError("of another")))
    other.start()
    other.join()
    late_errors.note(Module, np.True_, lambda: ValueError("own"))
    try:
        assert [str(c.fail()) for c in late_errors.taken_from(start)] == ["own"]
        late_errors.discard()
        assert late_errors.count() == 1
        late_errors.explain_from(0, lambda e: TypeError("wrong thread"))
        [check] = late_errors._taken(Module, 0)
        assert str(check.fail()) == "of another"
    finally:
        late_errors._taken(Module, 0)


def test_flags_of_a_thread_that_records_are_its_own() -> None:
    """They are on another stream until it has done; then others read them, too."""
    from hpcflow.kernels import late_errors

    class Module:
        asnumpy = staticmethod(np.asarray)

    def taken() -> int:
        found: list[int] = []
        other = threading.Thread(target=lambda: found.append(len(late_errors._taken(Module, 0))))
        other.start()
        other.join()
        return found[0]

    with late_errors.kept_apart():
        late_errors.note(Module, np.True_, lambda: ValueError("own"))
        assert taken() == 0 and len(late_errors._taken(Module, 0)) == 1
        late_errors.note(Module, np.True_, lambda: ValueError("own"))
    assert taken() == 1


def test_list_of_devices() -> None:
    """Name, memory and capability of each GPU, also from another session's list."""
    [gpu, *_] = [d for d in device_lib.list_local_devices() if d.device_type == "GPU"]
    assert gpu.name == "/device:GPU:0" and gpu.memory_limit > 1 << 30
    assert re.fullmatch(r"device: 0, name: .+, pci bus id: [0-9a-f:]+\.0, "
                        r"compute capability: \d+\.\d", gpu.physical_device_desc)


def test_values_of_a_group_of_one_stay_on_the_gpu(stand_in_only: None) -> None:
    with hf.Graph().as_default(), hf.device("/gpu:0"):
        x = hf.placeholder(hf.float32, [3])
        total, = hf.mpi.allreduce([x + 1.0], "sum")
        rows = hf.mpi.allgather(x * 2.0)
        with hf.Session() as session:
            fetches, feeds = hf.reduce_sum(total + 1.0) + hf.reduce_sum(rows), {x: [0.0, 1.0, 2.0]}
            session.run(fetches, feeds)
            gpu: Any = next(d for d in session._engine.task.devices if d.type == "GPU")
            moved = gpu.moved_in, gpu.moved_out
            assert session.run(fetches, feeds) == 15.0
            assert (gpu.moved_in - moved[0], gpu.moved_out - moved[1]) == (1, 1)


def test_what_a_monitored_session_asks_for() -> None:
    """Whether variables of the GPU have a value is known on the host, and read on the GPU."""
    with hf.Graph().as_default(), hf.device("/gpu:0"):
        variables = [hf.Variable(hf.ones([n])) for n in (1, 2, 3)]
        missing = hf.report_uninitialized_variables()
        doubled = variables[2] * 2.0
        known = hf.stack([hf.is_variable_initialized(v) for v in 100 * variables])
        config = hf.ConfigProto(allow_soft_placement=True)
        with hf.Session(config=config) as session:
            session.run(variables[1].initializer)
            assert session.run(known).tolist() == 100 * [False, True, False]
            assert session.run(missing).tolist() == [b"Variable", b"Variable_2"]
        with hf.train.MonitoredTrainingSession(config=config) as monitored:
            np.testing.assert_array_equal(monitored.run(doubled), [2, 2, 2])


def test_fetches_belong_to_the_client() -> None:
    """They share memory neither with what was fed nor with each other."""
    fed = np.arange(3, dtype=np.int32)
    with hf.Graph().as_default(), hf.device("/gpu:0"):
        x = hf.placeholder(hf.int32, [3])
        y = hf.cast(x, hf.float32) + 1.0
        with hf.Session(config=hf.ConfigProto(allow_soft_placement=True)) as session:
            fetches = [hf.identity(x), hf.reshape(x, [3, 1]), y, hf.identity(y)]
            found = session.run(fetches, {x: fed})
    everything = [fed, *found]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(everything)
                   for b in everything[:i])


def test_lists_are_added_up() -> None:
    """Lists of tensors on the GPU, as the gradients of loops written by others add."""
    raw = hf.raw_ops
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder(hf.float32, [2, 3])
        made = raw.TensorListFromTensor(tensor=x, element_shape=np.int32([3]))
        total = raw.AddN(inputs=[made, made, raw.ZerosLike(x=made)])
        stacked = raw.TensorListStack(input_handle=total, element_shape=np.int32([3]),
                                      element_dtype=hf.float32)
        value = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(session.run(stacked, {x: value}), 2 * value)


def test_a_sum_whose_shape_the_graph_does_not_know() -> None:
    """Its axes become known when the step is compiled."""
    with hf.Graph().as_default(), hf.Session() as session:
        x, axes = hf.placeholder(hf.float32, [5]), hf.placeholder(hf.int32, [1])
        total = hf.reduce_sum(hf.exp(x), axes, keepdims=True)
        total.op._update_input(1, hf.constant([0]))
        assert session.run(hf.matmul(total[:, None], [[2.0]]), {x: np.zeros(5)}) == 10


def test_what_is_to_be_with_a_variable_has_kernels_where_it_is() -> None:
    """Also if it is no part of the step that is the first to use the variable."""
    with hf.Graph().as_default(), hf.Session() as session:
        counts = [hf.get_variable(n, [], hf.int64, hf.zeros_initializer(), use_resource=r)
                  for n, r in (("a", False), ("b", True))]
        with hf.colocate_with(counts[0].op):
            queue = hf.FIFOQueue(1, hf.float32)
        upper = counts[1].count_up_to(3)
        session.run(hf.global_variables_initializer())
        session.run(queue.enqueue(1.0))
        assert session.run([queue.dequeue(), counts[0], upper]) == [1, 0, 0]
