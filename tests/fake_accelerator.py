"""A device type "FAKE" with memory of its own and an asynchronous stream, without any hardware.

Its arrays are not NumPy arrays and refuse to become some: host code that touches device memory
fails loudly, as does device code that is given host memory. The array module ``xp`` has NumPy's
functions, whose work is complete only when the stream has come to it; ``to_host`` waits.

A subclass may bring :class:`Rules` of a real array library: they see every call before it is made
and every result, and so make the device as narrow as that library is (``gpu_ring/cupy_rules``).
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hpcflow.kernels import late_errors
from hpcflow.runtime.executor import device as devices
from hpcflow.runtime.executor.device import Device

_DELAY = 20e-6  # seconds between the launch of some work and its completion


class Stream:
    """Completes launched work in order, a little later, in a thread of its own."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._launched = 0
        self._completed = 0
        threading.Thread(target=self._work, daemon=True).start()

    def launch(self) -> int:
        """Put some work into the stream; returns its number."""
        with self._changed:
            self._launched += 1
            self._queue.put(self._launched)
            return self._launched

    def wait(self, number: int | None = None) -> None:
        """Wait for one piece of work, or for all."""
        with self._changed:
            wanted = self._launched if number is None else number
            self._changed.wait_for(lambda: self._completed >= wanted)

    def _work(self) -> None:
        while True:
            number = self._queue.get()
            time.sleep(_DELAY)
            with self._changed:
                self._completed = number
                self._changed.notify_all()


@functools.cache
def _stream(index: int) -> Stream:
    """The stream of the devices with this index: sessions come and go, threads would stay."""
    return Stream()


class Rules:
    """What a library of device arrays lays down; this one allows all that NumPy does."""

    def finds(self, path: str) -> None:
        """Raise unless the library has the function or module `path` (``linalg.solve``)."""

    def given(self, path: str, arguments: list, keywords: dict) -> None:
        """Changes the unwrapped arguments into those that NumPy does the same with."""

    def called(self, path: str, arguments: tuple, keywords: dict, result: Any) -> Any:
        """The result of a function as the library gives it; raises what it would raise."""
        return result

    def method(self, name: str, array: FakeArray, arguments: tuple, keywords: dict) -> None:
        """Raise unless arrays of the library have the method with these arguments."""

    def key(self, array: Place, key: Any) -> Any:
        """The unwrapped `key` as the library understands it."""
        return array._device.unwrap(key)

    def writes(self, array: FakeArray, key: Any, value: Any) -> None:
        """Raise if what ``array[key] = value`` does is not defined."""


class FakeArray:
    """An array in the memory of a :class:`FakeDevice`; see ``to_host`` for its content."""

    __array_priority__ = 1000
    __array_ufunc__ = None  # NumPy's functions refuse it
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, device: FakeDevice, data: np.ndarray, base: FakeArray | None = None) -> None:
        self._device = device
        self._own = 0
        self._data = data
        self._ticket = device.stream.launch()
        self.base = base if data.base is not None else None
        if data.base is None:
            self._taken = device.take(data.nbytes)
            self._own = data.nbytes

    def __del__(self) -> None:
        if self._own:
            self._device.released(self)

    shape = property(lambda self: self._data.shape)
    dtype = property(lambda self: self._data.dtype)
    ndim = property(lambda self: self._data.ndim)
    size = property(lambda self: self._data.size)
    itemsize = property(lambda self: self._data.itemsize)
    nbytes = property(lambda self: self._data.nbytes)
    flags = property(lambda self: self._data.flags)
    strides = property(lambda self: self._data.strides)
    T = property(lambda self: self.transpose())
    real = property(lambda self: self._device.wrap(self._data.real, self),
                    lambda self, value: self._set_part("real", value))
    imag = property(lambda self: self._device.wrap(self._data.imag, self),
                    lambda self, value: self._set_part("imag", value))

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion of device memory to a NumPy array")

    def __iter__(self) -> Iterator[FakeArray]:
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        return len(self._data)

    @property
    def data(self) -> Any:
        """Where it is in the device's memory."""
        return self._device.pointer(self)

    def _set_part(self, name: str, value: Any) -> None:
        given, data = self._device.unwrap(value), self._data
        self._device.run(lambda: setattr(data, name, given), (), data)
        self._ticket = self._device.stream.launch()

    def _read(self) -> np.ndarray:
        self._device.waits()
        self._device.stream.wait(self._ticket)
        return self._data

    def item(self) -> Any:
        """The only element as a Python number; waits."""
        return self._read().item()

    def tolist(self) -> Any:
        """Nested lists; waits."""
        return self._read().tolist()

    def __bool__(self) -> bool:
        return bool(self._read())

    def __int__(self) -> int:
        return int(self._read())

    def __float__(self) -> float:
        return float(self._read())

    def __index__(self) -> int:
        return self._read().__index__()

    def __getitem__(self, key: Any) -> FakeArray:
        device, data, place = self._device, self._data, Place(self, key)
        return device.wrap(device.run(lambda: data[place.plain()], (data,)), self)

    def __setitem__(self, key: Any, value: Any) -> None:
        device = self._device
        device.rules.writes(self, key, value)
        place, given, data = Place(self, key), device.unwrap(value), self._data
        device.run(lambda: data.__setitem__(place.plain(), given), (), data)
        device.launches += 1
        self._ticket = device.stream.launch()

    def __getattr__(self, name: str) -> Any:
        """Methods of NumPy arrays, run on the device."""
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._data, name)
        if not callable(method):
            raise AttributeError(f"FakeArray has no attribute '{name}'")
        return self._device.function(method, self, name)


class Place:
    """A key of an array, without the array itself: indices may be others when it is used."""

    def __init__(self, array: FakeArray, key: Any) -> None:
        self._device = array._device
        self.shape = array.shape
        self._key = key
        self.plain()  # what is wrong with it is wrong now

    def plain(self) -> Any:
        """The key with the device's own memory in it."""
        return self._device.rules.key(self, self._key)


# Operator -> the function of the array library that it stands for.
_FUNCTIONS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "matmul": "matmul", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal", "neg": "negative",
    "pos": "positive", "abs": "absolute", "invert": "invert",
}  # fmt: skip


def _operator(name: str) -> Callable:
    word = name.strip("_")
    function, swapped = (_FUNCTIONS[word], False) if word in _FUNCTIONS else (
        _FUNCTIONS[word[1:]], True)

    def apply(self: FakeArray, *others: Any) -> Any:
        device = self._device
        operands = (*others, self) if swapped else (self, *others)
        given = [*map(device.unwrap, (self, *others))]

        def finish(result: Any) -> Any:
            return result if result is NotImplemented else device.rules.called(
                function, operands, {}, result)

        result = device.run(lambda: getattr(np.ndarray, name)(*given), given, finish=finish)
        if result is NotImplemented:
            return result
        device.launches += 1
        return device.wrap(result, None)

    return apply


def _in_place(name: str) -> Callable:
    function = _FUNCTIONS[name.strip("_")[1:]]

    def apply(self: FakeArray, other: Any) -> FakeArray:
        device = self._device
        given, data = device.unwrap(other), self._data
        device.run(lambda: getattr(np.ndarray, name)(data, given), (), data)
        device.rules.called(function, (self, other), {"out": self}, self._data)
        device.launches += 1
        self._ticket = device.stream.launch()
        return self

    return apply


for _name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"]:
    setattr(FakeArray, f"__{_name}__", _operator(f"__{_name}__"))
    setattr(FakeArray, f"__r{_name}__", _operator(f"__r{_name}__"))
    setattr(FakeArray, f"__i{_name}__", _in_place(f"__i{_name}__"))
for _name in ["matmul", "lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert"]:
    setattr(FakeArray, f"__{_name}__", _operator(f"__{_name}__"))


class FakeModule:
    """NumPy (or a part of it) on the arrays of a device."""

    def __init__(self, device: FakeDevice, module: Any, path: str = "") -> None:
        self._device = device
        self._module = module
        self._path = path

    ndarray = FakeArray

    def asarray(self, value: Any, dtype: Any = None) -> FakeArray:
        """Host values move to the device here, and only here."""
        if isinstance(value, FakeArray):
            return value if dtype in (None, value.dtype) else value.astype(dtype)
        if isinstance(value, (np.ndarray, np.generic)):
            value = self._device.to_device(value)
            return value if dtype is None else self.asarray(value, dtype)
        return self._device.wrap(np.asarray(self._device.unwrap(value), dtype), None)

    def array(self, value: Any, dtype: Any = None, copy: bool = True) -> FakeArray:
        """A new array on the device."""
        return self.asarray(value, dtype).copy()

    def argsort(self, value: Any, axis: int = -1, kind: str | None = None) -> FakeArray:
        """Stable, as that of CuPy is."""
        given = self._device.unwrap(value)
        return self._device.wrap(self._device.run(
            lambda: np.argsort(given, axis, "stable"), [given]), None)

    def broadcast(self, *values: Any) -> Any:
        """Of the arrays' shapes."""
        return np.broadcast(*map(self._device.unwrap, values))

    def asnumpy(self, value: Any) -> Any:
        """The host's copy."""
        return np.array(value._read()) if isinstance(value, FakeArray) else value

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if isinstance(found, type) or not (callable(found) or hasattr(found, "__path__")
                                           or type(found).__name__ == "module"):
            return found  # element types and constants
        path = f"{self._path}.{name}".lstrip(".")
        self._device.rules.finds(path)
        if callable(found):
            return self._device.function(found, None, path)
        return FakeModule(self._device, found, path)


# Functions whose results have as many elements as their values say: a device waits for these.
_WAITING = frozenset({"nonzero", "flatnonzero", "argwhere", "unique", "bincount", "compress"})


# Functions and methods that change their first argument.
_WRITING = frozenset({"copyto", "put", "putmask", "place", "fill", "sort", "fill_diagonal",
                      "partition"})


def _is_view(result: Any, given: list) -> bool:
    """True if a function only looked at the memory of an array in another way: no launch."""
    made = result if isinstance(result, (list, tuple)) else [result]
    return bool(made) and all(
        isinstance(m, np.ndarray) and m.size and any(
            isinstance(g, np.ndarray) and np.may_share_memory(m, g) for g in given)
        for m in made)


class FakeFunction:
    """One of NumPy's functions, or a method of `owner`; a ufunc also has ``at``, ``reduce``, ..."""

    def __init__(self, device: FakeDevice, function: Callable, owner: FakeArray | None,
                 path: str) -> None:
        self._device = device
        self._function = function
        self._owner = owner
        self._path = path

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        device, owner, path = self._device, self._owner, self._path
        device.starting(path)
        out = keywords.get("out")
        if owner is not None:
            device.rules.method(path, owner, arguments, keywords)
        given = [*map(device.unwrap, arguments)]
        named = {k: device.unwrap(v) for k, v in keywords.items()}

        def finish(result: Any) -> Any:
            return device.rules.called(path, arguments, keywords, result) if owner is None else (
                result)

        # What is recorded must not hold the array, or a variable is not updated in place any more.
        function, is_method = self._function, owner is not None

        def compute() -> Any:
            positional, by_name = given[:], {**named}
            if not is_method:
                device.rules.given(path, positional, by_name)
            return function(*positional, **by_name)

        written = named.get("out")
        nin = getattr(self._function, "nin", len(given))
        if len(given) > nin:  # a ufunc's outputs by position
            written = given[nin]
        if path in _WRITING or path.endswith(".at"):
            written = given[0] if owner is None else owner._data
        result = device.run(compute, [*given, *named.values()]
                            + ([] if owner is None else [owner._data]), written, finish)
        looks = written is None and not isinstance(function, np.ufunc) and _is_view(
            result, given if owner is None else [owner._data])
        device.launches += not looks
        if path in _WAITING:
            device.waits()
        if isinstance(out, FakeArray):
            out._ticket = device.stream.launch()
            return out
        return device.wrap(result, owner)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._function, name)
        path = f"{self._path}.{name}"
        return FakeFunction(self._device, found, None, path) if callable(found) else found


class FakeDevice(Device):
    """The device; counts what is moved and launched, and the memory in use."""

    type = "FAKE"
    has_own_memory = True
    priority = 50
    rules = Rules()

    def __init__(self, name: str, index: int, resources: Any) -> None:
        super().__init__(name, index, resources)
        self.stream = _stream(index)
        self.xp = FakeModule(self, np)
        self.moved_in = 0
        self.moved_out = 0
        self.launches = 0
        self.syncs = 0  # times that the host waited
        self.in_use = 0  # bytes of arrays
        self.most_in_use = 0

    def count(self, nbytes: int) -> None:
        """So many more bytes are in use, or less."""
        self.in_use += nbytes
        self.most_in_use = max(self.most_in_use, self.in_use)

    def take(self, nbytes: int) -> Any:
        """Take memory for an array; returns what holds it."""
        self.count(nbytes)

    def released(self, array: FakeArray) -> None:
        """The memory of an array is free again."""
        self.count(-array._own)

    def to_device(self, value: Any) -> Any:
        if isinstance(value, FakeArray):
            if value._device is not self:
                raise TypeError(f"{self.name} was given memory of {value._device.name}")
            return value
        if isinstance(value, bytes) or getattr(value, "dtype", None) == np.object_:
            return value
        if not isinstance(value, (np.ndarray, np.generic)):
            raise TypeError(f"{type(value).__name__} cannot move to {self.name}")
        self.moved_in += 1
        return FakeArray(self, np.array(value))

    def to_host(self, value: Any) -> Any:
        if not isinstance(value, FakeArray):
            return value
        if value._device is not self:
            raise TypeError(f"{self.name} was given memory of {value._device.name}")
        self.moved_out += 1
        if late_errors.count():
            return late_errors.read(self.xp, value, self._copied)
        return self._copied(value)

    def _copied(self, value: FakeArray) -> Any:
        return value._read().copy()[()]

    def is_device_value(self, value: Any) -> bool:
        return isinstance(value, FakeArray)

    def synchronize(self) -> None:
        self.stream.wait()

    # ------------------------------------------------------------ inside the device

    def run(self, compute: Callable[[], Any], given: Sequence[Any] = (),
            written: np.ndarray | None = None,
            finish: Callable[[Any], Any] = lambda result: result) -> Any:
        """``finish(compute())``, some work of the device on the memory `given`, which changes
        `written`."""
        return finish(compute())

    def starting(self, path: str) -> None:
        """The function or method `path` of the array library is about to be called."""

    def waits(self) -> None:
        """The host has to wait for the device."""
        self.syncs += 1

    def pointer(self, array: FakeArray) -> Any:
        """Where an array is."""
        raise AttributeError("arrays of this device have no addresses")

    def function(self, function: Callable, owner: FakeArray | None = None,
                 path: str = "") -> FakeFunction:
        """`function`, which the array library calls `path`, on arrays of this device."""
        return FakeFunction(self, function, owner, path)

    def unwrap(self, value: Any) -> Any:
        """The device's own memory behind the arrays in `value`; host arrays are refused."""
        if isinstance(value, FakeArray):
            if value._device is not self:
                raise TypeError(f"{self.name} was given memory of {value._device.name}")
            return value._data
        if isinstance(value, np.ndarray):
            raise TypeError(f"{self.name} was given a NumPy array of shape {value.shape}")
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(map(self.unwrap, value))
        return value

    def wrap(self, value: Any, base: FakeArray | None) -> Any:
        """Arrays of the device for what NumPy returned."""
        if isinstance(value, np.ndarray):
            return FakeArray(self, value, base)
        if isinstance(value, np.generic):
            return FakeArray(self, np.asarray(value))
        if isinstance(value, (list, tuple)):
            items = [self.wrap(v, base) for v in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return value


@contextlib.contextmanager
def fake_accelerators(count: int = 1) -> Iterator[None]:
    """Inside, every task has `count` devices of type FAKE."""
    devices.register_device_type(FakeDevice, lambda: count)
    try:
        yield
    finally:
        devices.unregister_device_type("FAKE")
