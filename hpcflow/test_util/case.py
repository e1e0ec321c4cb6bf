"""TestCase: unittest's, with sessions, comparisons of arrays and of protobufs."""

from __future__ import annotations

import contextlib
import math
import random
import re
import threading
import unittest
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from hpcflow import dtypes, errors
from hpcflow.device_spec import DeviceSpec
from hpcflow.graph.defaults import get_default_session
from hpcflow.graph.graph import Graph, device, get_default_graph, reset_default_graph
from hpcflow.graph.likes import TensorHandle, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.state.variables import Variable
from hpcflow.runtime.session.session import Session
from hpcflow.shapes import TensorShape
from hpcflow.test_util.assertions import Assertions
from hpcflow.test_util.captured import CapturedWrites, captured_writes
from hpcflow.test_util.environment import get_temp_dir, gpu_device_name
from hpcflow.version import GRAPH_DEF_VERSION

if TYPE_CHECKING:
    from google.protobuf.message import Message

SEED = 87654321


class CheckedThread:
    """A thread of a test, whose failure is that of the test that joins it."""

    def __init__(self, test: unittest.TestCase, target: Callable, args: tuple = (),
                 kwargs: dict | None = None) -> None:
        self._test = test
        self._target = target
        self._args = args
        self._kwargs = kwargs or {}
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._target(*self._args, **self._kwargs)
        except BaseException as e:  # noqa: BLE001 - reported by join()
            self._error = e

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the thread; fail the test if the thread failed."""
        self._thread.join()
        if self._error is not None:
            self._test.fail(f"Error in checkedThread: {self._error!r}")

    def is_alive(self) -> bool:
        """Return whether the thread is running."""
        return self._thread.is_alive()


class TestCase(Assertions):
    """A unittest case for programs that build and run graphs.

    Every test begins with an empty default graph and fixed seeds.
    """

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self._threads: list[CheckedThread] = []
        self._cached_session: Session | None = None

    def setUp(self) -> None:
        """Fix the seeds and empty the default graph."""
        if self._testMethodName == "test_session":
            self.skipTest("not a test")
        self._close_shared_session()
        random.seed(SEED)
        np.random.seed(SEED)
        reset_default_graph()
        get_default_graph().seed = SEED

    def tearDown(self) -> None:
        """Close the session that the test's blocks shared; fail for threads still running."""
        running = [t for t in self._threads if t.is_alive()]
        self._threads = []
        self._close_shared_session()
        if running:
            self.fail(f"{len(running)} threads of the test were not joined")

    def _close_shared_session(self) -> None:
        if self._cached_session is not None:
            self._cached_session.close()
            self._cached_session = None

    def get_temp_dir(self) -> str:
        """Return a directory for this test's files."""
        path = Path(get_temp_dir()) / re.sub(r"\W", "_", self.id())
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    @contextlib.contextmanager
    def test_session(self, graph: Graph | None = None, config: Message | None = None,
                     use_gpu: bool = False, force_gpu: bool = False) -> Iterator[Session]:
        """Context manager: a session, and its graph as the default graph.

        Without `graph` and `config` all blocks of a test share one session, and the graph of the
        first of them, so that variables keep their values between them. Operations go to the CPU
        unless `use_gpu` or `force_gpu`; the latter fails where there is no GPU. Unless `force_gpu`
        or a `config` says otherwise devices that there are not are replaced by others.
        """
        if force_gpu and not gpu_device_name():
            self.fail("force_gpu: there is no GPU")
        where = (gpu_device_name() if use_gpu or force_gpu else "/device:CPU:0") or None
        if graph is None and config is None:
            session, closing = self._shared_session(force_gpu), None
        else:
            session = closing = Session(graph=graph, config=config or _placing(force_gpu))
        try:
            with session.graph.as_default(), session.as_default(), device(where):
                yield session
        finally:
            if closing is not None:
                closing.close()

    test_session.__test__ = False  # type: ignore[attr-defined]

    @contextlib.contextmanager
    def cached_session(self, graph: Graph | None = None, config: Message | None = None,
                       use_gpu: bool = False, force_gpu: bool = False) -> Iterator[Session]:
        """Context manager: the session that all blocks of a test share; see `test_session`."""
        with self.test_session(graph, config, use_gpu, force_gpu) as session:
            yield session

    @contextlib.contextmanager
    def session(self, graph: Graph | None = None, config: Message | None = None,
                use_gpu: bool = False, force_gpu: bool = False) -> Iterator[Session]:
        """Context manager: as `test_session`, with a new session that ends with the block."""
        with self.test_session(graph or get_default_graph(), config, use_gpu,
                               force_gpu) as session:
            yield session

    def _shared_session(self, force_gpu: bool) -> Session:
        if self._cached_session is None:
            self._cached_session = Session(config=_placing(force_gpu))
        return self._cached_session

    def evaluate(self, tensors: TensorLike) -> Any:
        """Return the values of `tensors` (any nest) in the default session, else the test's."""
        default = get_default_session()
        if default is not None:
            return default.run(tensors)
        with self.test_session() as session:
            return session.run(tensors)

    def captureWritesToStream(self, stream: TextIO
                              ) -> contextlib.AbstractContextManager[CapturedWrites]:
        """Return a context in which writes to `stream` (``sys.stderr``) are kept; its value has
        them as ``contents()``."""
        return captured_writes(stream)

    def checkedThread(self, target: Callable, args: tuple = (),
                      kwargs: dict | None = None) -> CheckedThread:
        """Return a thread that must be started and joined, and whose errors fail the test."""
        thread = CheckedThread(self, target, args, kwargs)
        self._threads.append(thread)
        return thread

    assertItemsEqual = unittest.TestCase.assertCountEqual
    assertRaisesRegexp = unittest.TestCase.assertRaisesRegex

    # ------------------------------------------------------------ texts, messages, shapes

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        """Fail unless `actual` starts with `expected_start`."""
        if not actual.startswith(expected_start):
            self.fail(self._formatMessage(msg, f"{actual!r} does not start with "
                                               f"{expected_start!r}"))

    def assertProtoEquals(self, expected_message_maybe_ascii: str, message: Message) -> None:
        """Fail unless `message` equals a message, given as such or in the text format."""
        expected = expected_message_maybe_ascii
        if isinstance(expected, str):
            from google.protobuf import text_format

            expected = text_format.Parse(expected, type(message)())
        self.assertIs(type(expected), type(message))
        if expected != message:
            self.assertMultiLineEqual(str(expected), str(message))
            self.fail("the messages differ in unknown fields or in NaN")

    def assertProtoEqualsVersion(self, expected: str, actual: Message,
                                 producer: int = GRAPH_DEF_VERSION, min_consumer: int = 0) -> None:
        """Fail unless a ``GraphDef`` equals the one of a text without its versions and these."""
        versions = f"versions {{ producer: {producer} min_consumer: {min_consumer} }};"
        self.assertProtoEquals(f"{versions}\n{expected}", actual)

    def assertShapeEqual(self, np_array: np.ndarray, tf_tensor: TensorHandle) -> None:
        """Fail unless the tensor's static shape is the array's."""
        self.assertIsInstance(np_array, (np.ndarray, np.generic))
        self.assertEqual(list(np_array.shape), TensorShape(tf_tensor.get_shape()).as_list())

    def assertDeviceEqual(self, device1: str, device2: Any) -> None:
        """Fail unless both name the same device."""
        first, second = (DeviceSpec.from_string(d).to_string() if isinstance(d, str) else
                         "" if d is None else d.to_string() for d in (device1, device2))
        self.assertEqual(first, second)

    # ------------------------------------------------------------ errors

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(self, exception_type: type[BaseException],
                                       expected_err_re_or_predicate: Any) -> Iterator[None]:
        """Context manager: fail unless an exception is raised that matches.

        The second argument is a function of the exception, or a regular expression that is
        searched in its text; for errors of operations also in the names of the operation and of
        those it was made for.
        """
        matches = expected_err_re_or_predicate
        if not callable(matches):
            pattern = matches

            def matches(error: BaseException) -> bool:
                return re.search(pattern, _error_text(error)) is not None
        try:
            yield
        except exception_type as e:
            if not matches(e):
                raise AssertionError(f"Exception of type {type(e).__name__} does not match: "
                                     f"{e}") from e
        else:
            self.fail(f"{exception_type.__name__} not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: str) -> Any:
        """As :meth:`assertRaisesWithPredicateMatch` for errors of operations."""
        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)

    # ------------------------------------------------------------ numbers and arrays

    def _array(self, value: TensorLike) -> np.ndarray:
        return _array(self._evaluated(value))

    def _evaluated(self, value: Any) -> Any:
        """`value` with arrays for tensors and variables."""
        if isinstance(value, (Tensor, Variable)):
            return self.evaluate(value)
        if hasattr(value, "_asdict"):
            return type(value)(*map(self._evaluated, value))
        if isinstance(value, dict):
            return {k: self._evaluated(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._evaluated(v) for v in value]
        return value

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        """Fail unless |f1 - f2| <= err (two NaNs are near, as are equal infinities)."""
        near = f1 == f2 or abs(f1 - f2) <= err or (math.isnan(f1) and math.isnan(f2))
        self.assertTrue(near, f"{f1!r} != {f2!r} +/- {err!r}{f' ({msg})' if msg else ''}")

    def assertArrayNear(self, farray1: Any, farray2: Sequence[Any], err: float) -> None:
        """Fail unless the sequences have the same length and near elements."""
        self.assertEqual(len(farray1), len(farray2))
        for f1, f2 in zip(farray1, farray2):
            self.assertNear(float(f1), float(f2), err)

    def _NDArrayNear(self, ndarray1: TensorLike, ndarray2: TensorLike, err: float) -> bool:
        first, second = self._array(ndarray1), self._array(ndarray2)
        self.assertEqual(first.shape, second.shape)
        return float(np.linalg.norm((first - second).ravel())) <= err

    def assertNDArrayNear(self, ndarray1: TensorLike, ndarray2: TensorLike, err: float) -> None:
        """Fail unless the 2-norm of the difference is at most `err`."""
        self.assertTrue(self._NDArrayNear(ndarray1, ndarray2, err),
                        f"the 2-norm of the difference is more than {err}")

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6,
                       msg: str | None = None) -> None:
        """Fail unless shapes are equal and |a - b| <= atol + rtol |b| everywhere.

        NaNs are equal to each other. Dicts, and lists of arrays of different shapes, are compared
        entry by entry.
        """
        self._all_close(self._evaluated(a), self._evaluated(b), rtol, atol, "", msg or "")

    def _all_close(self, a: Any, b: Any, rtol: float, atol: float, path: str, msg: str) -> None:
        """Compare what stands at `path` in both nests, as ``[key][1]``."""
        a, b = _entries(a, b), _entries(b, a)
        if isinstance(a, dict) or isinstance(b, dict):
            if not (isinstance(a, dict) and isinstance(b, dict)):
                raise ValueError(f"Can't compare dict to non-dict, {a!r} vs {b!r}")
            self.assertEqual(sorted(a), sorted(b), "mismatched keys")
            for key in a:
                self._all_close(a[key], b[key], rtol, atol, f"{path}[{key}]", msg)
        elif _is_ragged(a) or _is_ragged(b):
            self.assertEqual(len(a), len(b), f"Length mismatch: {len(a)} vs {len(b)}. {msg}")
            for n, (x, y) in enumerate(zip(a, b)):
                self._all_close(x, y, rtol, atol, f"{path}[{n}]", msg)
        else:
            first, second = _comparable(self._array(a)), _comparable(self._array(b))
            where = f"Mismatched value: a{path} is different from b{path}. {msg}"
            self.assertEqual(first.shape, second.shape, f"Shape mismatch: {where}")
            unlike = f"{where}\n{_unlike(first, second, rtol, atol)}"
            if np.ndim(rtol) or np.ndim(atol):  # which NumPy's assertion does not take
                self.assertTrue(np.allclose(first, second, rtol, atol, equal_nan=True), unlike)
                return
            np.testing.assert_allclose(first, second, rtol, atol, err_msg=unlike)

    def assertAllCloseAccordingToType(self, a: TensorLike, b: TensorLike, rtol: float = 1e-6,
                                      atol: float = 1e-6, float_rtol: float = 1e-6,
                                      float_atol: float = 1e-6, half_rtol: float = 1e-3,
                                      half_atol: float = 1e-3, bfloat16_rtol: float = 1e-2,
                                      bfloat16_atol: float = 1e-2,
                                      msg: str | None = None) -> None:
        """As :meth:`assertAllClose`, with wider limits for float32, float16 and bfloat16."""
        kinds = {self._array(a).dtype, self._array(b).dtype}
        if kinds & {np.dtype(np.float32), np.dtype(np.complex64)}:
            rtol, atol = max(rtol, float_rtol), max(atol, float_atol)
        if np.dtype(np.float16) in kinds:
            rtol, atol = max(rtol, half_rtol), max(atol, half_atol)
        if dtypes.bfloat16.np in kinds:
            rtol, atol = max(rtol, bfloat16_rtol), max(atol, bfloat16_atol)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Fail unless shapes and elements are equal; NaNs are equal to each other.

        Lists of arrays of different shapes are compared array by array; lists of the same
        variables are equal, whatever their values.
        """
        if _same_objects(a, b):
            return
        a, b = self._evaluated(a), self._evaluated(b)
        if _is_ragged(a) or _is_ragged(b):
            self.assertEqual(len(a), len(b), msg)
            for x, y in zip(a, b):
                self.assertAllEqual(x, y, msg)
            return
        first, second = self._array(a), self._array(b)
        self.assertEqual(first.shape, second.shape, msg)
        unlike = first != second
        if unlike.ndim:
            msg = f"{msg or ''}\nnot equal lhs = {first[unlike]}\nnot equal rhs = {second[unlike]}"
        np.testing.assert_array_equal(first, second, err_msg=msg or "")

    def assertNotAllClose(self, a: TensorLike, b: TensorLike, rtol: float = 1e-6,
                          atol: float = 1e-6) -> None:
        """Fail if :meth:`assertAllClose` holds."""
        with self.assertRaises(AssertionError, msg="the values are close"):
            self.assertAllClose(a, b, rtol, atol)

    def assertNotAllEqual(self, a: TensorLike, b: TensorLike) -> None:
        """Fail if :meth:`assertAllEqual` holds."""
        with self.assertRaises(AssertionError, msg="the values are equal"):
            self.assertAllEqual(a, b)

    def assertAllGreater(self, a: TensorLike, comparison_target: Any) -> None:
        """Fail unless all elements are greater than the target."""
        self.assertGreater(np.min(self._array(a)), comparison_target)

    def assertAllGreaterEqual(self, a: TensorLike, comparison_target: Any) -> None:
        """Fail unless no element is less than the target."""
        self.assertGreaterEqual(np.min(self._array(a)), comparison_target)

    def assertAllLess(self, a: TensorLike, comparison_target: Any) -> None:
        """Fail unless all elements are less than the target."""
        self.assertLess(np.max(self._array(a)), comparison_target)

    def assertAllLessEqual(self, a: TensorLike, comparison_target: Any) -> None:
        """Fail unless no element is greater than the target."""
        self.assertLessEqual(np.max(self._array(a)), comparison_target)

    def assertAllInRange(self, target: TensorLike, lower_bound: Any, upper_bound: Any,
                         open_lower_bound: bool = False, open_upper_bound: bool = False) -> None:
        """Fail unless all elements are between the bounds, which an open side excludes."""
        target = self._array(target)
        if target.dtype.kind not in "iuf" and target.dtype != dtypes.bfloat16.np:
            self.fail(f"The elements are of {target.dtype}: integers and floats are in a range")
        above = self.assertAllGreater if open_lower_bound else self.assertAllGreaterEqual
        below = self.assertAllLess if open_upper_bound else self.assertAllLessEqual
        above(target, lower_bound)
        below(target, upper_bound)

    def assertAllInSet(self, target: TensorLike, expected_set: Any) -> None:
        """Fail unless all elements are among the expected ones."""
        self.assertLessEqual(set(self._array(target).ravel().tolist()), set(expected_set))


def _array(value: TensorLike) -> np.ndarray:
    """Convert `value` to an array; strings become bytes, as sessions return them."""
    array = np.asarray(value)
    if array.dtype.kind == "U":
        array = np.char.encode(array, "utf-8")
    return array.astype(object) if array.dtype.kind == "S" else array


def _same_objects(a: Any, b: Any) -> bool:
    return isinstance(a, list) and isinstance(b, list) and len(a) == len(b) and all(
        x is y and isinstance(x, Variable) for x, y in zip(a, b))


def _comparable(array: np.ndarray) -> np.ndarray:
    """Convert bfloat16, which NumPy does not compare by itself, to float32."""
    return array.astype(np.float32) if array.dtype == dtypes.bfloat16.np else array


def _unlike(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> str:
    """The elements of two arrays of numbers that are not close, as a message shows them."""
    if not a.ndim or a.dtype.kind not in "iufc" or b.dtype.kind not in "iufc":
        return ""
    far = ~np.isclose(a, b, rtol, atol, equal_nan=True)
    with np.errstate(all="ignore"):
        distance = np.abs(a[far].astype(complex) - b[far])
    return (f"not close where = {np.argwhere(far).tolist()}\nnot close lhs = {a[far]}\n"
            f"not close rhs = {b[far]}\nnot close dif = {distance}\n"
            f"not close tol = {(atol + rtol * np.abs(b))[far]}")


def _entries(value: Any, other: Any) -> Any:
    """A namedtuple beside another one or a dict as a dict, else as a list; all else as it is."""
    if not hasattr(value, "_asdict"):
        return value
    return value._asdict() if hasattr(other, "_asdict") or isinstance(other, dict) else list(value)


def _is_ragged(value: TensorLike) -> bool:
    """True if `value` is a sequence of dicts, or of arrays that do not make one array."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    if any(isinstance(v, dict) or hasattr(v, "_asdict") or _is_ragged(v) for v in value):
        return True
    return len({np.shape(v) for v in value}) > 1


def _error_text(error: BaseException) -> str:
    if not isinstance(error, errors.OpError):
        return str(error)
    text, op = error.message, error.op
    while isinstance(op, Operation):
        text += f"\nCaused by op: {op.name}"
        op = getattr(op, "_original_op", None)
    return text


def _placing(force_gpu: bool) -> Any:
    from tensorboard.compat.proto.config_pb2 import ConfigProto

    return ConfigProto(allow_soft_placement=not force_gpu)
