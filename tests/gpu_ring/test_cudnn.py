"""The kernels by cuDNN: on a GPU by the library, else by what stands in for it; and the library's
own word on descriptors, which it gives without a driver."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from ctypes import byref, c_double, c_float, c_int, c_size_t, c_uint, c_ulonglong
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gpu_ring import nvrtc
from gpu_ring.cases import cases_by_type, differences
from gpu_ring.cudnn_library import served, wheel_file
from gpu_ring.fake_cudnn import SIMPLE, WINOGRAD, FakeCudnn
from gpu_ring.stand_in import hardware

import hpcflow as hf
from hpcflow import config
from hpcflow.base.geometry import windows
from hpcflow.host.tuning import gpu as tuning
from hpcflow.kernels.cudnn import convolution, library, pausing, transposing

COMPUTES = {"Conv2D": "ConvolutionForward", "Conv2DBackpropInput": "ConvolutionBackwardData",
            "Conv2DBackpropFilter": "ConvolutionBackwardFilter", "Conv3D": "ConvolutionForward",
            "Conv3DBackpropInput": "ConvolutionBackwardData",
            "Conv3DBackpropInputV2": "ConvolutionBackwardData",
            "Conv3DBackpropFilter": "ConvolutionBackwardFilter",
            "Conv3DBackpropFilterV2": "ConvolutionBackwardFilter"}
OPS = tuple(COMPUTES)


@pytest.fixture
def cudnn(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCudnn | None]:
    """The stand-in for the library, whose calls are counted, so none is part of a graph; None where
    it is the real one."""
    monkeypatch.setattr(config.flags, "cuda_graphs", False)
    yield served(monkeypatch)
    convolution._plan.cache_clear()


@pytest.mark.parametrize("op", OPS)
def test_it_computes_the_same(op: str, cudnn: FakeCudnn | None) -> None:
    wrong = [text for case in cases_by_type()[op] for text in differences(case)]
    assert not wrong, "\n".join(wrong)
    assert cudnn is None or COMPUTES[op] in cudnn.calls


# ---------------------------------------------------------------- the way that is taken

PARTS = {"Conv2D": "ConvolutionForward", "input": "ConvolutionBackwardData",
         "filter": "ConvolutionBackwardFilter"}
LAST, FIRST = (library.NHWC, SIMPLE), (library.NCHW, WINOGRAD)


def convolved(part: str, gpus: int, steps: int = 1, kind: Any = np.float32) -> Any:
    """A convolution of 3x3 windows, or one of its gradients, computed so many times."""
    drawn = np.random.default_rng(0)
    x, w, dy = (drawn.standard_normal(dims).astype(kind) for dims in (
        (2, 9, 70, 5), (3, 3, 5, 33), (2, 9, 70, 33)))
    with hf.Graph().as_default():
        if part == "Conv2D":
            y = hf.nn.conv2d(x, hf.Variable(w), [1, 1, 1, 1], "SAME")
        elif part == "input":
            y = hf.nn.conv2d_backprop_input(x.shape, hf.Variable(w), dy, [1, 1, 1, 1], "SAME")
        else:
            y = hf.nn.conv2d_backprop_filter(hf.Variable(x), w.shape, dy, [1, 1, 1, 1], "SAME")
        with hf.Session(config=hf.ConfigProto(device_count={"GPU": gpus})) as session:
            session.run(hf.global_variables_initializer())
            return [session.run(y) for _ in range(steps)][-1]


def check_close(found: Any, part: str) -> None:
    """It is what the CPU computes, up to rounding."""
    wanted = convolved(part, 0)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("fast", [LAST, FIRST])
@pytest.mark.parametrize("part", PARTS)
def test_the_fastest_way_is_found_once(part: str, fast: tuple[int, int],
                                       cudnn: FakeCudnn | None) -> None:
    if cudnn is not None:
        cudnn.costs[fast] = 10
    check_close(convolved(part, 1, steps=3), part)
    if cudnn is not None:
        assert cudnn.ran[-3:] == [(PARTS[part], *fast)] * 3
        assert {way[1:] for way in cudnn.ran[:-3]} == {LAST, FIRST, (library.NCHW, SIMPLE)}
        assert len(cudnn.ran) <= 3 + 3 * 3


@pytest.mark.parametrize("part", PARTS)
def test_the_deterministic_mode_measures_nothing(part: str, cudnn: FakeCudnn | None,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config.flags, "deterministic", True)
    found = convolved(part, 1, steps=2)
    check_close(found, part)
    assert np.array_equal(found, convolved(part, 1))
    if cudnn is not None:
        layout = library.NHWC if part == "Conv2D" else library.NCHW
        assert cudnn.ran == [(PARTS[part], layout, SIMPLE)] * 3


@pytest.mark.parametrize("search", ["0", "1", "all"])
def test_the_search_is_asked_for(search: str, cudnn: FakeCudnn | None,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """None, the best by the heuristics, which is one way in each order here, or all there are."""
    monkeypatch.setattr(config.flags, "cudnn_search", search)
    monkeypatch.setattr(tuning, "CUDNN_MEASURED", 1)
    check_close(convolved("filter", 1), "filter")
    if cudnn is not None:
        tried = {"0": {(library.NCHW, SIMPLE)}, "1": {LAST, (library.NCHW, SIMPLE)},
                 "all": {LAST, FIRST, (library.NCHW, SIMPLE)}}
        assert {way[1:] for way in cudnn.ran} == tried[search]


def test_a_way_that_takes_too_much_memory_is_left(cudnn: FakeCudnn | None,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "CUDNN_MOST_BYTES", 16)
    check_close(convolved("input", 1, steps=2), "input")
    assert cudnn is None or FIRST not in [way[1:] for way in cudnn.ran]
    convolution._plan.cache_clear()
    monkeypatch.setattr(tuning, "CUDNN_PART_OF_FREE", 1 << 35)
    check_close(convolved("input", 1, steps=2), "input")
    assert cudnn is None or cudnn.ran[-2:] == [(PARTS["input"], *LAST)] * 2


def test_ways_that_do_not_work_are_left(cudnn: FakeCudnn | None,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    if cudnn is None:
        pytest.skip("the library does not refuse this")
    cudnn.refused.add("ConvolutionBackwardData")
    check_close(convolved("input", 1, steps=2), "input")
    assert not cudnn.ran  # the plain kernel has computed it


# ---------------------------------------------------------------- with bias and relu

JOINED = "ConvolutionBiasActivationForward"


def layer(gpus: int, relu: bool, kind: Any = np.float32, steps: int = 1, window: int = 3) -> Any:
    """A convolution with a bias, and a relu or none, computed so many times."""
    drawn = np.random.default_rng(1)
    x, w, b = (drawn.standard_normal(dims).astype(kind) for dims in (
        (2, 9, 7, 5), (window, window, 5, 6), (6,)))
    with hf.Graph().as_default():
        images = hf.placeholder(kind, x.shape)
        y = hf.nn.bias_add(hf.nn.conv2d(images, hf.Variable(w), [1, 1, 1, 1], "SAME"),
                           hf.Variable(b))
        y = hf.nn.relu(y) if relu else y
        with hf.Session(config=hf.ConfigProto(device_count={"GPU": gpus})) as session:
            session.run(hf.global_variables_initializer())
            return [session.run(y, {images: x}) for _ in range(steps)][-1]


def check_layer(kind: Any, relu: bool, window: int = 3) -> None:
    """A layer on the GPU is what it is on the CPU."""
    found = layer(1, relu, kind, steps=3, window=window)
    wanted = layer(0, relu, kind, window=window).astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=abs(wanted).max() * (
        4e-3 if kind is np.float16 else 1e-5))
    assert (found < 0).any() != relu


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("way", [JOINED, "ConvolutionForward", "refused", "deterministic", "none",
                                 "a product"])
def test_a_layer_is_what_its_ops_compute(way: str, kind: Any, relu: bool, request: Any,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """By the library in one pass or by a pass behind it, or without the library."""
    cudnn = None if way == "none" else request.getfixturevalue("cudnn")
    monkeypatch.setattr(config.flags, "deterministic", way == "deterministic")
    if cudnn is not None:
        cudnn.refused |= {JOINED} if way == "refused" else set()
        cudnn.costs[way, SIMPLE] = 10
    window = 1 if way == "a product" else 3
    check_layer(kind, relu, window)
    if cudnn is not None and window > 1:
        name = JOINED if way == JOINED else "ConvolutionForward"
        assert {one[0] for one in cudnn.ran[-3:]} == {name}
        assert (JOINED in {one[0] for one in cudnn.ran}) == (
            way in (JOINED, "ConvolutionForward"))


@pytest.mark.usefixtures("stand_in_only")
def test_nothing_is_measured_while_a_graph_is_recorded(cudnn: FakeCudnn) -> None:
    gpu = hardware(0)
    over = (windows.Span(4, 3, 1, 1, 4, 1, 1),) * 2
    with gpu.xp.cuda.Stream() as stream:
        x, w = gpu.xp.ones((1, 4, 4, 2), np.float32), gpu.xp.ones((3, 3, 2, 2), np.float32)
        plan = convolution._plan(cudnn, x.dtype, library.FMA_MATH, x.shape, w.shape, over, False)
        stream.begin_capture()
        plan.forward(gpu.xp, x, w)
        assert cudnn.ran == [("ConvolutionForward", *LAST)]
        stream.end_capture()
        plan.forward(gpu.xp, x, w)
        assert len(cudnn.ran) > 2


def test_the_pause_compiles() -> None:
    assert not nvrtc.errors(pausing.SOURCE)


@pytest.mark.parametrize("size", transposing.ELEMENTS)
def test_matrices_are_transposed(size: int, cudnn: FakeCudnn | None) -> None:
    """The kernel compiles; a GPU, if there is one, runs it."""
    if cudnn is not None:
        assert not nvrtc.errors(transposing.SOURCE.replace("ELEMENT", transposing.ELEMENTS[size]))
        return
    import cupy

    for dims in ((1, 1, 1), (3, 65, 31), (2, 32, 64), (70_000, 2, 3), (1, 5, 3_000_000)):
        x = cupy.arange(np.prod(dims)).astype(f"u{size}").reshape(dims)
        made = cupy.empty((dims[0], *dims[:0:-1]), x.dtype)
        transposing.transpose(x, made, *dims)
        assert (made == x.swapaxes(1, 2)).all(), dims


# ---------------------------------------------------------------- the library itself


SCALARS = {"int": c_int, "size_t": c_size_t, "double": c_double, "unsigned": c_uint,
           "float": c_float, "uint32_t": c_uint, "unsigned long long": c_ulonglong}


def c_kind(argument: str) -> type | str:
    """A scalar's type in C; anything that is passed by address is a pointer."""
    words = argument.replace("const", "").split()
    if "*" in argument or "[" in argument or re.search(
            r"(Handle|handle|Descriptor|Stream)_t", argument):
        return "pointer"
    return c_ulonglong if words[1:2] == ["long"] else SCALARS.get(words[0], c_int)  # or enumeration


def test_signatures_are_those_of_the_headers() -> None:
    headers = [wheel_file(n).read_text() for n in (
        "cudnn_graph.h", "cudnn_ops.h", "cudnn_cnn.h", "cudnn_adv.h")]
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", "".join(headers), flags=re.DOTALL)
    for name, types in library.SIGNATURES.items():
        found = re.search(rf"cudnn{name}\(([^;]*)\);", text)
        assert found, name
        wanted = [c_kind(a) for a in found[1].split(",")]
        ours = [t if t in SCALARS.values() else "pointer" for t in types]
        assert ours == wanted, name
    fields = re.search(r"struct cudnnConvolutionFwdAlgoPerfStruct \{(.*?)\}", text, re.DOTALL)
    assert fields is not None
    assert len(fields[1].strip().split(";")) - 1 == len(library.AlgorithmFound._fields_)


@pytest.mark.parametrize("over", [
    [(56, 3, 1, 1), (30, 3, 2, 1)], [(9, 3, 2, 0), (56, 3, 1, 1), (30, 5, 2, 2)]])
def test_descriptors_without_a_driver(over: list[tuple[int, int, int, int]]) -> None:
    """Of images and of volumes: what the library counts from them."""
    lib = library.opened(str(wheel_file("libcudnn.so.9")))
    sizes, window, strides, before = map(library.ints, zip(*over))
    x = library.tensor(lib, (8, *sizes, 64), np.dtype(np.float32))
    rank, rates = len(over), library.ints([1] * len(over))
    w = lib.create("Filter", ("SetFilterNdDescriptor", library.FLOAT, library.NHWC, rank + 2,
                              library.ints((96, 32, *window))))
    conv = lib.create(
        "Convolution", ("SetConvolutionNdDescriptor", rank, before, strides, rates,
                        library.CROSS_CORRELATION, library.FLOAT),
        ("SetConvolutionGroupCount", 2), ("SetConvolutionMathType", library.FMA_MATH))
    dims = library.ints([0] * (rank + 2))
    lib.call("GetConvolutionNdForwardOutputDim", conv, x, w, rank + 2, dims)
    expected = [(n + 2 * b - k) // s + 1 for n, k, s, b in over]
    assert [*dims] == [8, 96, *expected]
    with pytest.raises(library.CudnnError, match="SetConvolutionNdDescriptor failed"):
        lib.create("Convolution", ("SetConvolutionNdDescriptor", rank, before, strides,
                                   library.ints([0] * rank), library.CROSS_CORRELATION,
                                   library.FLOAT))
    lib.create("Activation", ("SetActivationDescriptor", library.RELU, library.NAN, 0.0))
    assert ctypes.sizeof(library.AlgorithmFound) == 48


@pytest.mark.parametrize("layout", [library.NHWC, library.NCHW])
def test_layouts_without_a_driver(layout: int) -> None:
    """The strides of images and volumes, as the library has understood their order."""
    lib = library.opened(str(wheel_file("libcudnn.so.9")))
    get = ctypes.CDLL(lib.path).cudnnGetTensorNdDescriptor
    for dims in ((8, 5, 6, 7), (8, 4, 5, 6, 7)):
        rank, kind, found = len(dims), c_int(), c_int()
        sizes, strides = library.ints([0] * rank), library.ints([0] * rank)
        made = library.tensor(lib, dims, np.dtype(np.float16), layout)
        assert not get(made.pointer, rank, byref(kind), byref(found), sizes, strides)
        lying = np.empty(dims if layout == library.NHWC else (dims[0], dims[-1], *dims[1:-1]),
                         np.uint8)
        first = np.moveaxis(lying, -1, 1) if layout == library.NHWC else lying
        assert (kind.value, found.value) == (library.HALF, rank)
        assert ([*sizes], [*strides]) == ([*first.shape], [*first.strides])


def test_a_library_that_does_not_start_is_said_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one is of another CUDA than CuPy's."""
    def refusing(self: library.Library) -> None:
        raise library.CudnnError("cudnnCreate failed: not initialized (1001)")

    path = str(wheel_file("libcudnn.so.9"))
    monkeypatch.setattr(config.flags, "cudnn", path)
    monkeypatch.setattr(library.Library, "handle", refusing)
    library._load.cache_clear()
    with pytest.warns(RuntimeWarning, match="cudnnCreate failed.*plain kernels are used"):
        assert library.serving(SimpleNamespace(__name__="cupy")) is None
    library._load.cache_clear()


def test_a_missing_library_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config.flags, "cudnn", "/no/such/libcudnn.so.9")
    with pytest.warns(RuntimeWarning, match="no/such.*plain kernels are used"):
        assert library.load() is None
    monkeypatch.setattr(config.flags, "cudnn", "0")
    assert library.load() is None


def test_by_default_it_is_used_where_it_is(monkeypatch: pytest.MonkeyPatch,
                                           recwarn: pytest.WarningsRecorder) -> None:
    monkeypatch.setattr(config.flags, "cudnn", "")
    monkeypatch.setattr(library, "_WHEELS", ())
    monkeypatch.setattr(library, "_NAME", "libnosuch.so.9")
    library._load.cache_clear()
    assert library.load() is None
    assert not recwarn.list  # nobody asked for it
    monkeypatch.undo()
    library._load.cache_clear()
    monkeypatch.setattr(config.flags, "cudnn", "")
    monkeypatch.setattr(library, "_NAME", str(wheel_file("libcudnn.so.9")))
    assert library.load() is not None
    library._load.cache_clear()
