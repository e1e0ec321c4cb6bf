"""Every scatter and segment op, of every type that it takes, with ids that are repeated."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gpu_ring import nvrtc
from gpu_ring.cases import device_types
from gpu_ring.conftest import real_gpus

import hpcflow as hf
from hpcflow import config, raw_ops
from hpcflow.graph.opdef import registered_ops

ROWS, COUNT = 5, 23
IDS = np.random.default_rng(3).integers(0, ROWS, COUNT).astype(np.int32)
DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
          "bfloat16", "float32", "float64", "complex64", "complex128")
VARIABLE = ("Update", "Add", "Sub", "Mul", "Div", "Max", "Min")
SCATTERS = [f"Scatter{n}" for n in VARIABLE] + [f"ScatterNd{n}" for n in (
    "Update", "Add", "Sub", "Max", "Min")] + [f"TensorScatter{n}" for n in (
    "Update", "Add", "Sub", "Max", "Min")] + ["ScatterNd", "ScatterNdNonAliasingAdd", "InplaceAdd",
                                              "InplaceSub", "InplaceUpdate"]
SEGMENTS = [f"UnsortedSegment{n}" for n in ("Sum", "Prod", "Max", "Min")] + [
    f"Segment{n}" for n in ("Sum", "Mean", "Prod", "Max", "Min")]
GATHERED = [f"SparseSegment{n}" for n in ("Sum", "Mean", "SqrtN")]
RESOURCES = [f"Resource{op}" for op in SCATTERS if op.startswith("Scatter") and op not in (
    "ScatterNd", "ScatterNdNonAliasingAdd")]
SPREAD = [f"{op}{grad}" for op in GATHERED for grad in ("Grad", "GradV2")]


def takes(op: str, attr: str) -> list[str]:
    """The types among DTYPES that an op takes."""
    allowed = registered_ops()[op].attr_map[attr].allowed
    return [d for d in DTYPES if not allowed or d in {a.name for a in allowed}]


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Small numbers of which products stay small; none is zero."""
    random = np.random.default_rng(5)
    values: Any = random.integers(1, 3, shape)
    if dtype.startswith(("float", "bfloat", "complex")):
        values = values * random.choice([-1.0, 0.5, 1.0], shape)
    return np.asarray(values).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def on(gpus: int, build: Any) -> list[np.ndarray]:
    """What ``build()`` fetches, with so many GPUs."""
    with hf.Graph().as_default():
        first, fetches = build()
        with hf.Session(config=hf.ConfigProto(device_count={"GPU": gpus},
                                              allow_soft_placement=True)) as session:
            feeds = dict(hf.get_collection("fed"))
            session.run(first, feeds)
            gpu = [d for d in session._engine.task.devices if d.type == "GPU"]
            before = [d.launches for d in gpu if not real_gpus()]
            found = [np.asarray(v) for v in session.run(fetches, feeds)]
            assert all(d.launches > n for d, n in zip(gpu, before)), "nothing ran on the device"
            return found


def fed(value: Any) -> Any:
    """A value that is not known when the step is compiled: of constants alone, and of placeholders
    with a default that are not fed, the CPU computes."""
    tensor = hf.placeholder(value.dtype, np.shape(value))
    hf.add_to_collection("fed", (tensor, value))
    return tensor


def check(op: str, attr: str, build: Any) -> None:
    """Both devices give the same of `op`, for every type that the CPU serves."""
    for dtype in takes(op, attr):
        try:
            expected = on(0, lambda d=dtype: build(d))
        except (hf.errors.InvalidArgumentError, TypeError) as e:
            assert "no kernel" in str(e) or "allowed" in str(e), f"{op} of {dtype}: {e}"
            continue
        for a, b in zip(expected, on(1, lambda d=dtype: build(d)), strict=True):
            assert a.dtype == b.dtype, f"{op} of {dtype}"
            narrow = a.dtype.itemsize == 2 and a.dtype.kind not in "iu"
            np.testing.assert_allclose(
                b.astype(np.complex128), a.astype(np.complex128), rtol=5e-2 if narrow else 1e-5,
                atol=0.3 if narrow else 1e-6, err_msg=f"{op} of {dtype}")


@pytest.mark.parametrize("op", SCATTERS)
def test_scatters(op: str) -> None:
    def build(dtype: str) -> tuple[list, list]:
        updates, table = fed(numbers(dtype, (COUNT, 3))), fed(numbers(dtype, (ROWS, 3)))
        column, ids = fed(IDS[:, None]), fed(IDS)
        if op == "ScatterNd":
            return [], [raw_ops.ScatterNd(indices=column, updates=updates, shape=[ROWS, 3])]
        if op == "ScatterNdNonAliasingAdd":
            return [], [raw_ops.ScatterNdNonAliasingAdd(input=table, indices=column,
                                                        updates=updates)]
        if op.startswith("Tensor"):
            return [], [getattr(raw_ops, op)(tensor=table, indices=column, updates=updates)]
        if op.startswith("Inplace"):
            return [], [getattr(raw_ops, op)(x=table, i=ids, v=updates)]
        ref = raw_ops.VariableV2(shape=table.shape, dtype=hf.as_dtype(dtype))
        first = raw_ops.Assign(ref=ref, value=table).op
        places = column if "Nd" in op else ids
        return [first], [getattr(raw_ops, op)(ref=ref, indices=places, updates=updates)]

    check(op, "dtype" if op == "" else "T" if "T" in registered_ops()[op].attr_map else "Tparams",
          build)


@pytest.mark.parametrize("op", SEGMENTS + GATHERED)
def test_segments(op: str) -> None:
    def build(dtype: str) -> tuple[list, list]:
        rows, ids, ordered = fed(numbers(dtype, (COUNT, 3))), fed(IDS), fed(np.sort(IDS))
        if op.startswith("Unsorted"):
            ids = fed(np.where(np.arange(COUNT) % 7 == 3, -1, IDS))
            return [], [getattr(raw_ops, op)(data=rows, segment_ids=ids, num_segments=ROWS + 1)]
        if op in GATHERED:
            return [], [getattr(raw_ops, op)(data=rows, indices=ids, segment_ids=ordered)]
        return [], [getattr(raw_ops, op)(data=rows, segment_ids=ordered)]

    check(op, "T", build)


@pytest.mark.parametrize("op", RESOURCES)
def test_scatters_into_resources(op: str) -> None:
    def build(dtype: str) -> tuple[list, list]:
        ref = raw_ops.VarHandleOp(shape=[ROWS, 3], dtype=hf.as_dtype(dtype), shared_name="v")
        first = raw_ops.AssignVariableOp(resource=ref, value=fed(numbers(dtype, (ROWS, 3))))
        column, ids = fed(IDS[:, None]), fed(IDS)
        given = {"ref" if "Nd" in op else "resource": ref}
        update = getattr(raw_ops, op)(**given, indices=column if "Nd" in op else ids,
                                      updates=fed(numbers(dtype, (COUNT, 3))))
        with hf.control_dependencies([update]):
            return [first], [raw_ops.ReadVariableOp(resource=ref, dtype=hf.as_dtype(dtype))]

    check(op, "T" if "Nd" in op else "dtype", build)


@pytest.mark.parametrize("op", SPREAD)
def test_gradients_of_segments(op: str) -> None:
    def build(dtype: str) -> tuple[list, list]:
        rows, size = fed(numbers(dtype, (ROWS, 3))), fed(np.int32(ROWS + 2))
        made = getattr(raw_ops, op)(
            grad=rows, indices=fed(IDS), segment_ids=fed(np.sort(IDS)),
            **{"dense_output_dim0" if op.endswith("V2") else "output_dim0": size})
        return [], [*made] if isinstance(made, (tuple, list)) else [made]

    check(op, "T", build)


def test_stitches() -> None:
    """Of equal places the last one stays."""
    def build(dtype: str) -> tuple[list, list]:
        parts = [fed(numbers(dtype, (n, 2))) for n in (5, 9)]
        places = [fed(np.arange(5, dtype=np.int32)), fed(np.int32([0, 6, 2, 5, 7, 2, 2, 0, 7]))]
        return [], [raw_ops.DynamicStitch(indices=places, data=parts)]

    check("DynamicStitch", "T", build)


@pytest.mark.parametrize("op", ["Bincount", "DenseBincount"])
def test_counts(op: str) -> None:
    def build(dtype: str) -> tuple[list, list]:
        size, ids, weights = fed(np.int32(ROWS)), fed(IDS), fed(numbers(dtype, (COUNT,)))
        given = {"arr": ids} if op == "Bincount" else {"input": ids}
        return [], [getattr(raw_ops, op)(size=size, weights=weights, **given)]

    check(op, "T", build)


def test_every_such_op_is_here() -> None:
    """An op that gets a kernel for the device gets a test."""
    known = {*SCATTERS, *RESOURCES, *SEGMENTS, *GATHERED, *SPREAD}
    words = re.compile(r"(?!TensorArray|TensorList|Mpi).*(Scatter|Segment|Inplace)")
    assert {op for op in device_types() if words.match(op)} <= known


def test_extrema_keep_nan() -> None:
    """An atomic maximum would lose them."""
    values = np.array([1, np.nan, 3, 2], np.float32)

    def build() -> tuple[list, list]:
        return [], [raw_ops.UnsortedSegmentMax(data=fed(values), segment_ids=[0, 0, 1, 1],
                                               num_segments=2)]

    np.testing.assert_array_equal(on(1, build)[0], [np.nan, 3])


@pytest.mark.parametrize("name", ["Add", "Mul", "Div"])
def test_the_deterministic_mode_sorts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is rounded after each update does not depend on which comes first."""
    monkeypatch.setattr(config.flags, "deterministic", True)

    def refuse(*_: Any) -> None:
        raise AssertionError("atomic updates in any order")

    monkeypatch.setattr("hpcflow.kernels.common.device_rows.combine", refuse)

    def build() -> tuple[list, list]:
        ref = raw_ops.VariableV2(shape=[ROWS, 3], dtype=hf.float32)
        first = raw_ops.Assign(ref=ref, value=fed(numbers("float32", (ROWS, 3)))).op
        return [first], [getattr(raw_ops, f"Scatter{name}")(
            ref=ref, indices=fed(IDS), updates=fed(numbers("float32", (COUNT, 3))))]

    np.testing.assert_allclose(on(1, build)[0], on(0, build)[0], rtol=1e-5)


def test_a_row_out_of_range_is_not_written() -> None:
    """The error names the first wrong index; the other rows are as they were or updated."""
    with hf.Graph().as_default(), hf.Session() as session:
        table = hf.Variable(np.zeros((4, 2), np.float32))
        ids, updates = hf.placeholder(hf.int32, [3]), hf.placeholder(hf.float32, [3, 2])
        update = hf.scatter_add(table, ids, updates)
        session.run(hf.global_variables_initializer())
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"indices\[1\] = 9"):
            session.run(update.op, {ids: [0, 9, 1], updates: np.ones((3, 2))})
        assert not session.run(table)[2:].any()


@pytest.mark.usefixtures("one_by_one")
def test_updates_are_few_launches() -> None:
    """A sum and its check are three, the last of equal ids five."""
    from gpu_ring.test_workloads import gpu_of

    with hf.Graph().as_default(), hf.Session() as session:
        table = hf.Variable(np.zeros((8, 2), np.float32))
        ids, updates = hf.placeholder(hf.int32, [3]), hf.placeholder(hf.float32, [3, 2])
        session.run(hf.global_variables_initializer())
        for make, most in ((hf.scatter_add, 3), (hf.scatter_sub, 3), (hf.scatter_update, 5)):
            fetch, feeds = make(table, ids, updates).op, {ids: [1, 1, 3], updates: np.ones((3, 2))}
            session.run(fetch, feeds)
            before = gpu_of(session).launches
            session.run(fetch, feeds)
            found = gpu_of(session).launches - before - 1  # which stacks what was found out
            assert found <= most, (make, found)


@pytest.mark.usefixtures("stand_in_only")
def test_updates_compile() -> None:
    """Every kernel that has run in this module is CUDA C++."""
    from gpu_ring.stand_in import FormPrograms

    test_scatters("ScatterMax")
    test_scatters("ScatterDiv")
    texts = [k.text() for k in FormPrograms.written if "update(" in k.functions]
    assert len(texts) > 10
    wrong = [found for t in texts if (found := nvrtc.errors(t, "-std=c++17"))]
    assert not wrong, wrong[0]
