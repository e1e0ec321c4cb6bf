"""The cuDNN library: where it is found, the C functions that are called, descriptors.

It is looked for as ``HPCFLOW_CUDNN`` says: where the wheel ``nvidia-cudnn-cu13`` or ``-cu12`` puts
it and on the library path (the default, and ``1``, which says what is wrong if it is not there), at
a path, or not at all (``0``). Source: the C API of cuDNN 9.
"""

from __future__ import annotations

import ctypes
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import (
    POINTER,
    byref,
    c_double,
    c_float,
    c_int,
    c_size_t,
    c_uint,
    c_ulonglong,
    c_void_p,
)
from typing import Any

import numpy as np

from hpcflow import config
from hpcflow.base.once import once
from hpcflow.base.wheel_files import paths_in
from hpcflow.kernels.cudnn import pausing, transposing

MAJOR = 9
_NAME = "libcudnn.so.9"
_OFF, _SEARCH = ("0", "off", "no", "false"), ("", "1")
_WHEELS = ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12")
_P, _OUT, _INTS = c_void_p, POINTER(c_void_p), POINTER(c_int)
_SIZE = POINTER(c_size_t)


class AlgorithmFound(ctypes.Structure):
    """One way to compute a convolution, as the heuristics judge it."""

    _fields_ = [("algo", c_int), ("status", c_int), ("time", c_float), ("memory", c_size_t),
                ("determinism", c_int), ("math_type", c_int), ("reserved", c_int * 3)]


_FOUND = [c_int, _INTS, POINTER(AlgorithmFound)]
# Function -> the types of its arguments; all of them return a status.
SIGNATURES: dict[str, list] = {
    "Create": [_OUT],
    "SetStream": [_P, _P],
    "CreateTensorDescriptor": [_OUT],
    "DestroyTensorDescriptor": [_P],
    "SetTensorNdDescriptorEx": [_P, c_int, c_int, c_int, _INTS],
    "CreateFilterDescriptor": [_OUT],
    "DestroyFilterDescriptor": [_P],
    "SetFilterNdDescriptor": [_P, c_int, c_int, c_int, _INTS],
    "CreateConvolutionDescriptor": [_OUT],
    "DestroyConvolutionDescriptor": [_P],
    "SetConvolutionNdDescriptor": [_P, c_int, _INTS, _INTS, _INTS, c_int, c_int],
    "SetConvolutionGroupCount": [_P, c_int],
    "SetConvolutionMathType": [_P, c_int],
    "GetConvolutionNdForwardOutputDim": [_P, _P, _P, c_int, _INTS],
    "GetConvolutionForwardAlgorithm_v7": [*[_P] * 5, *_FOUND],
    "GetConvolutionBackwardDataAlgorithm_v7": [*[_P] * 5, *_FOUND],
    "GetConvolutionBackwardFilterAlgorithm_v7": [*[_P] * 5, *_FOUND],
    "ConvolutionForward": [*[_P] * 7, c_int, _P, c_size_t, _P, _P, _P],
    "ConvolutionBiasActivationForward": [*[_P] * 7, c_int, _P, c_size_t, *[_P] * 8],
    "ConvolutionBackwardData": [*[_P] * 7, c_int, _P, c_size_t, _P, _P, _P],
    "ConvolutionBackwardFilter": [*[_P] * 7, c_int, _P, c_size_t, _P, _P, _P],
    "CreateActivationDescriptor": [_OUT],
    "DestroyActivationDescriptor": [_P],
    "SetActivationDescriptor": [_P, c_int, c_int, c_double],
    "SetTensorNdDescriptor": [_P, c_int, c_int, _INTS, _INTS],
    "GetTensorNdDescriptor": [_P, c_int, _INTS, _INTS, _INTS, _INTS],
    "CreateDropoutDescriptor": [_OUT],
    "DestroyDropoutDescriptor": [_P],
    "SetDropoutDescriptor": [_P, _P, c_float, _P, c_size_t, c_ulonglong],
    "DropoutGetStatesSize": [_P, _SIZE],
    "CreateRNNDescriptor": [_OUT],
    "DestroyRNNDescriptor": [_P],
    "SetRNNDescriptor_v8": [_P, *[c_int] * 12, _P, c_uint],
    "CreateRNNDataDescriptor": [_OUT],
    "DestroyRNNDataDescriptor": [_P],
    "SetRNNDataDescriptor": [_P, *[c_int] * 5, _INTS, _P],
    "GetRNNWeightSpaceSize": [_P, _P, _SIZE],
    "GetRNNTempSpaceSizes": [_P, _P, c_int, _P, _SIZE, _SIZE],
    "GetRNNWeightParams": [_P, _P, c_int, c_size_t, _P, c_int, _P, _OUT, _P, _OUT],
    "RNNForward": [_P, _P, c_int, *[_P] * 11, c_size_t, _P, c_size_t, _P, c_size_t, _P],
    "RNNBackwardData_v8": [*[_P] * 16, c_size_t, _P, c_size_t, _P, c_size_t, _P],
    "RNNBackwardWeights_v8": [_P, _P, c_int, *[_P] * 7, c_size_t, _P, c_size_t, _P, c_size_t,
                              _P],
}  # fmt: skip

FLOAT, DOUBLE, HALF = 0, 1, 2
TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.float64): DOUBLE, np.dtype(np.float16): HALF}
NCHW, NHWC = 0, 1
CROSS_CORRELATION, PRECOMPUTED = 1, 1  # of convolutions the one kind, and an algorithm
IDENTITY, RELU, NAN = 5, 1, 1  # activations; that of what is not a number is that
DEFAULT_MATH, TENSOR_MATH, FMA_MATH = 0, 1, 3  # the default takes TF32 for float32
_NO_WAY = 2, 3  # thousands of the status: it does not take the arguments, or not support them

_MOST_WAYS = 16


class CudnnError(RuntimeError):
    """A function of cuDNN did not succeed."""


class NoWayError(CudnnError):
    """The library computes something of this kind in no way."""


#: Stands for an array among the arguments of a prepared call.
ARRAY = object()


class Library:
    """The loaded library, with a handle for each stream of each GPU in each thread: a handle keeps
    its stream, and no two threads may use one at a time."""

    def __init__(self, handle: Any, path: str) -> None:
        self.path = path
        self._functions = {}
        for name, types in SIGNATURES.items():
            function = getattr(handle, f"cudnn{name}")
            function.argtypes, function.restype = types, c_int
            self._functions[name] = function
        self._text = handle.cudnnGetErrorString
        self._text.argtypes, self._text.restype = [c_int], ctypes.c_char_p
        self._handles: dict[tuple[int, int, int], c_void_p] = {}

    def call(self, name: str, *args: Any) -> None:
        """Call ``cudnn<name>``, arrays by their addresses; CudnnError unless it succeeds."""
        self._check(name, self._functions[name](*[_plain(a) for a in args]))

    def prepare(self, name: str, *args: Any) -> Callable[..., None]:
        """``cudnn<name>`` as a function of the arrays that stand as `ARRAY` among its arguments, of
        which the first, the handle, is left out. Raises CudnnError unless it succeeds."""
        function, fixed = self._functions[name], [None, *map(_plain, args)]
        places = [i for i, a in enumerate(args, 1) if a is ARRAY]

        def run(*arrays: Any) -> None:
            words = fixed.copy()
            words[0] = self.handle()
            for place, array in zip(places, arrays):
                words[place] = array.data.ptr
            status = function(*words)
            if status:
                self._check(name, status)

        run.kept = args  # type: ignore[attr-defined]  # descriptors live as long
        return run

    def _check(self, name: str, status: int) -> None:
        if status:
            kind = NoWayError if status // 1000 in _NO_WAY else CudnnError
            raise kind(f"cudnn{name} failed: {self._text(status).decode()} ({status})")

    def create(self, kind: str, *settings: tuple) -> Descriptor:
        """A descriptor of this kind, after calls of its functions with what each is given."""
        made = c_void_p()
        self.call(f"Create{kind}Descriptor", byref(made))
        found = Descriptor(self, kind, made)
        for name, *values in settings:
            self.call(name, found, *values)
        return found

    def handle(self) -> c_void_p:
        """The handle of the current stream of the current GPU."""
        import cupy

        place = (cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr,
                 threading.get_ident())
        found = self._handles.get(place)
        if found is None:
            found = c_void_p()
            self.call("Create", byref(found))
            self.call("SetStream", found, place[1])
            self._handles[place] = found
        return found

    def transpose(self, source: Any, result: Any, count: int, rows: int, columns: int) -> None:
        """See `transposing.transpose`."""
        transposing.transpose(source, result, count, rows, columns)

    def pause(self) -> None:
        """See `pausing.pause`."""
        pausing.pause()

    def ways(self, name: str, *descriptors: Any, deterministic: bool) -> list[AlgorithmFound]:
        """The ways to compute, the best by the heuristics first (only deterministic ones, if such
        are wanted); NoWayError if there is none."""
        found, count = (AlgorithmFound * _MOST_WAYS)(), c_int()
        self.call(f"Get{name}Algorithm_v7", self.handle(), *descriptors, _MOST_WAYS, byref(count),
                  found)
        ways = [one for one in found[: count.value] if not one.status and (
            one.determinism or not deterministic)]
        if not ways:
            raise NoWayError(f"cuDNN knows no way for {name}")
        return ways


class Descriptor:
    """A cuDNN descriptor of an array or an operation; destroyed with this object."""

    def __init__(self, lib: Library, kind: str, pointer: c_void_p) -> None:
        self.pointer = pointer
        gone = weakref.finalize(self, lib.call, f"Destroy{kind}Descriptor", pointer)
        gone.atexit = False  # the driver may be gone by then


def _plain(value: Any) -> Any:
    """A descriptor or an array as C takes it."""
    if isinstance(value, Descriptor):
        return value.pointer
    data = getattr(value, "data", None)
    return getattr(data, "ptr", value)


def scales(dtype: np.dtype) -> tuple[Any, Any]:
    """Return pointers to 1 and 0: the factors of the result and of the output's old contents."""
    kind = c_double if dtype == np.float64 else c_float
    return byref(kind(1)), byref(kind(0))


def ints(values: Iterable[int]) -> Any:
    """Integers as C takes them: an array of ``int``."""
    found = tuple(values)
    return (c_int * len(found))(*found)


def tensor(lib: Any, dims: Sequence[int], dtype: np.dtype, layout: int = NHWC) -> Descriptor:
    """The descriptor of images or volumes (batch, *space, channels), which lie in memory so or
    channels first."""
    return lib.create("Tensor", ("SetTensorNdDescriptorEx", layout, TYPES[dtype], len(dims),
                                 ints((dims[0], dims[-1], *dims[1:-1]))))


def candidates() -> Iterator[str]:
    """The paths at which the library may be, the preferred first."""
    chosen = config.flags.cudnn
    if chosen.lower() in _OFF:
        return
    if chosen not in _SEARCH:
        yield chosen
        return
    yield from paths_in(_WHEELS, [_NAME])
    yield _NAME


def _dotted(version: int) -> str:
    """As people write it; until cuDNN 8 the major version had three digits behind it."""
    unit = 10000 if version >= 10000 else 1000
    return f"{version // unit}.{version % unit // 100}.{version % 100}"


def opened(path: str) -> Library:
    """The library at `path`; OSError if there is none, CudnnError for another major version."""
    handle = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    handle.cudnnGetVersion.restype = c_size_t
    version = handle.cudnnGetVersion()
    if version // 10000 != MAJOR:
        raise CudnnError(f"{path} is cuDNN {_dotted(version)}, expected version {MAJOR}")
    return Library(handle, path)


@once
def _load(chosen: str, on_gpu: bool) -> Library | None:
    problem: Exception | None = None
    for path in candidates():
        try:
            found = opened(path)
            if on_gpu:
                found.handle()  # it may be of another CUDA than CuPy
            return found
        except (OSError, AttributeError, CudnnError) as e:
            absent = isinstance(e, OSError) and path == _NAME and not chosen
            problem = problem if absent else e
    if problem is not None:
        warnings.warn(f"HPCFLOW_CUDNN={chosen!r}: {problem}; the plain kernels are used",
                      RuntimeWarning, stacklevel=4)
    return None


def load() -> Any:
    """The library, loaded on first use; None where it is not wanted, or not there."""
    return _load(config.flags.cudnn, False)


def serving(xp: Any) -> Any:
    """The library, if it takes the arrays of the module `xp`, those of CuPy, and starts on the
    current GPU; else None."""
    return _load(config.flags.cudnn, True) if getattr(xp, "__name__", "") == "cupy" else None
