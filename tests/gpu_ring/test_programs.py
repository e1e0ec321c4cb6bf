"""Lines that run on a GPU as programs: they give what the lines give, in fewer launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_ring import nvrtc
from gpu_ring.random_lines import RandomLines
from gpu_ring.test_workloads import gpu_of
from gpu_ring.workloads import WORKLOADS

import hpcflow as hf
from hpcflow.loops import cuda_code, form, form_numpy

TOLERANCE = {hf.float32: 2e-5, hf.float64: 1e-12, hf.float16: 2e-2, hf.bfloat16: 1e-1}


def run(build: Any, gpus: int, steps: int = 1) -> list[Any]:
    """What ``build()`` gives to fetch, with so many GPUs; all of `steps` steps."""
    with hf.Graph().as_default():
        fetches, feeds = build()
        with hf.Session(config=hf.ConfigProto(device_count={"GPU": gpus})) as session:
            session.run(hf.global_variables_initializer())
            return [session.run(fetches, feeds) for _ in range(steps)][-1]


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("is_open", [False, True])
def test_random_programs(dtype: Any, is_open: bool) -> None:
    for seed in range(8):
        def build(seed: int = seed) -> tuple:
            made = RandomLines(seed, 30, dtype, is_open)
            return made.wanted, made.feeds

        for i, (ours, theirs) in enumerate(zip(run(build, 1), run(build, 0), strict=True)):
            np.testing.assert_allclose(
                np.asarray(ours, np.float64), np.asarray(theirs, np.float64),
                rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=f"seed {seed}, fetch {i}")


OPTIMIZERS = {
    "GradientDescent": lambda: hf.train.GradientDescentOptimizer(0.1),
    "Momentum": lambda: hf.train.MomentumOptimizer(0.1, 0.9),
    "Nesterov": lambda: hf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "Adagrad": lambda: hf.train.AdagradOptimizer(0.1),
    "Adadelta": lambda: hf.train.AdadeltaOptimizer(0.1),
    "Adam": lambda: hf.train.AdamOptimizer(0.1),
    "RMSProp": lambda: hf.train.RMSPropOptimizer(0.1, momentum=0.5),
    "centered RMSProp": lambda: hf.train.RMSPropOptimizer(0.1, centered=True),
    "Ftrl": lambda: hf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "ProximalAdagrad": lambda: hf.train.ProximalAdagradOptimizer(0.1),
}


@pytest.mark.parametrize("name", list(OPTIMIZERS))
@pytest.mark.parametrize("is_resource", [False, True])
def test_updates_of_many_variables(name: str, is_resource: bool) -> None:
    def build() -> tuple:
        drawn = np.random.default_rng(0)
        variables = [hf.Variable(drawn.standard_normal(shape).astype(np.float32),
                                 use_resource=is_resource)
                     for shape in ((3, 4), (4,), (), (2, 2, 2), (300,))]
        loss = hf.add_n([hf.reduce_sum(hf.square(v - 1.0)) for v in variables])
        train = OPTIMIZERS[name]().minimize(loss)
        with hf.control_dependencies([train]):
            return [v.read_value() for v in variables], {}

    for ours, theirs in zip(run(build, 1, 4), run(build, 0, 4), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("one_by_one")
def test_updates_are_one_launch() -> None:
    with hf.Graph().as_default():
        variables = [hf.Variable(np.ones(n + 1, np.float32)) for n in range(20)]
        fed = [hf.placeholder(hf.float32, [n + 1]) for n in range(20)]
        train = hf.train.MomentumOptimizer(0.1, 0.9).apply_gradients(zip(fed, variables))
        feeds = {f: np.ones(f.shape, np.float32) for f in fed}
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            session.run(train, feeds)
            before = gpu_of(session).launches
            session.run(train, feeds)
            assert gpu_of(session).launches - before == 1


def test_reads_keep_their_places() -> None:
    """A value read before an update is the old one, wherever the program that uses it is put."""
    def build() -> tuple:
        v = hf.Variable(np.arange(6, dtype=np.float32))
        x = hf.placeholder(hf.float32, [6])
        before = hf.tanh(v.read_value() * x) + 1.0
        with hf.control_dependencies([before]):
            update = hf.assign_add(v, x)
        with hf.control_dependencies([update]):
            after = hf.tanh(v.read_value() * x) * before
        return [before, after], {x: np.full(6, 0.1, np.float32)}

    for ours, theirs in zip(run(build, 1, 3), run(build, 0, 3), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_label_out_of_range_is_an_error() -> None:
    def build() -> tuple:
        labels, logits = hf.placeholder(hf.int32, [3]), hf.placeholder(hf.float32, [3, 4])
        loss = hf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=2 * logits)
        return loss, {labels: [1, 7, 2], logits: np.zeros((3, 4), np.float32)}

    with pytest.raises(hf.errors.InvalidArgumentError, match=r"value of 7 .* of \[0, 4\)"):
        run(build, 1)


def test_an_uninitialized_variable_is_an_error() -> None:
    with hf.Graph().as_default():
        v = hf.Variable(np.ones(3, np.float32), name="weights")
        train = hf.train.MomentumOptimizer(0.1, 0.9).minimize(hf.reduce_sum(v * v))
        with hf.Session() as session, pytest.raises(
                hf.errors.FailedPreconditionError, match="uninitialized value weights"):
            session.run(train)


@pytest.mark.parametrize("dtype", [hf.float32, hf.float16, hf.bool, hf.int32, hf.complex64])
def test_many_arrays_put_together(dtype: Any) -> None:
    """More of them than a kernel has parameters for; of several lengths, some empty."""
    random = np.random.default_rng(0)
    # Whole numbers and truth values that are fed would stay on the host.
    given = hf.float32 if dtype in (hf.bool, hf.int32) else dtype

    def build() -> tuple:
        feeds = {hf.placeholder(given, [None, n, 2]): random.integers(0, 2, (3, n, 2))
                 for n in (1, 0, 3, 3, *[2] * 200)}
        fed = [hf.cast(x, dtype) for x in feeds]
        same = fed[4:]
        return [hf.concat(fed[:5], 1), hf.concat(fed, -2), hf.concat(same, 0), hf.stack(same),
                hf.stack(same[:3], 1), hf.stack(same[:9], -1)], feeds

    random = np.random.default_rng(0)
    ours = run(build, 1)
    random = np.random.default_rng(0)
    for a, b in zip(ours, run(build, 0), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("op", ["concat", "stack"])
def test_arrays_that_do_not_fit(op: str) -> None:
    def build() -> tuple:
        a, b = hf.placeholder(hf.float32), hf.placeholder(hf.float32)
        return getattr(hf, op)([a, b], axis=0), {a: np.ones((2, 3)), b: np.ones((2, 4))}

    for gpus in (0, 1):
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"\[2,3\].*\[2,4\]"):
            run(build, gpus)


# ---------------------------------------------------------------- the form itself


def test_maps_of_strides() -> None:
    """A transposed half of each row, added to one column of numbers."""
    b = form.Builder(2)
    x = b.load(b.array("float32"), form.Map(4, 1, 2))
    y = b.load(b.array("float32"), form.PER_ROW)
    b.store(b.array("float32"), form.Map(1, 3), b.apply("add", x, y))
    arrays = [np.arange(12, dtype=np.float32), np.float32([100, 200, 300]), np.zeros(6, np.float32)]
    form_numpy.run(b.program(), 3, arrays)
    np.testing.assert_array_equal(arrays[2], [102, 206, 310, 103, 207, 311])
    assert not nvrtc.errors(cuda_code.kernel_text([b.program()]), *cuda_code.OPTIONS)


@pytest.mark.parametrize(("break_it", "message"), [
    (lambda b, x: b.store(b.array("float64"), form.DENSE, x), "stores float32 as float64"),
    (lambda b, x: b.store(b.array("float32"), form.PER_ROW, x), "many numbers at one place"),
    (lambda b, x: b.store(b.array("float32"), form.DENSE, b.apply(
        "add", x, b.reduce_columns("sum", x))), "needs a reduction of all"),
    (lambda b, x: b.store(b.array("bool"), form.DENSE, b.apply("logical_not", x)), "takes no"),
])
def test_a_malformed_program(break_it: Any, message: str) -> None:
    b = form.Builder(3)
    break_it(b, b.load(b.array("float32"), form.DENSE))
    with pytest.raises(form.MalformedError, match=message):
        b.program()


@pytest.mark.usefixtures("stand_in_only")
def test_rows_of_one_number_compile() -> None:
    """Every op of rows and reduction, of arrays with one column, or with one element."""
    from gpu_ring.stand_in import FormPrograms

    FormPrograms.prepared.clear()
    for dims in ((5, 1), (1, 1)):
        def build(dims: tuple = dims) -> tuple:
            x = hf.placeholder(hf.float32, dims)
            labels = hf.placeholder(hf.int32, dims[:1])
            y = hf.tanh(x)
            return [hf.nn.softmax(y), hf.nn.log_softmax(y * 2.0), hf.reduce_sum(y * y, 0),
                    hf.reduce_max(y - 1.0, 1), hf.reduce_mean(y + x),
                    hf.nn.softmax_cross_entropy_with_logits(labels=x, logits=y),
                    hf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=y)], {
                        x: np.ones(dims), labels: np.zeros(dims[:1])}

        for ours, theirs in zip(run(build, 1), run(build, 0), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    texts = {cuda_code.kernel_text(p) for p in FormPrograms.prepared}
    assert len(texts) > 3
    wrong = [found for t in texts if (found := nvrtc.errors(t, *cuda_code.OPTIONS))]
    assert not wrong, wrong[0]


@pytest.mark.usefixtures("stand_in_only")
@pytest.mark.timeout(300)
def test_kernels_compile() -> None:
    """What workloads and random graphs generate is CUDA C++."""
    from gpu_ring.stand_in import FormPrograms

    FormPrograms.prepared.clear()
    for name in ("figure1", "alexnet", "lstm"):
        run(WORKLOADS[name], 1)
    for dtype in TOLERANCE:
        def build(dtype: Any = dtype) -> tuple:
            made = RandomLines(1, 20, dtype)
            return made.wanted, made.feeds

        run(build, 1)
    texts = {cuda_code.kernel_text(p) for p in FormPrograms.prepared}
    texts.add(cuda_code.kernel_text(FormPrograms.prepared[0], "long long"))
    assert len(texts) > 20
    wrong = [found for t in texts if (found := nvrtc.errors(t, *cuda_code.OPTIONS))]
    assert not wrong, wrong[0]
