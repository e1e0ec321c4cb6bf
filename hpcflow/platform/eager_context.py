"""The execution mode of a program (``python.eager.context``, ``contrib.eager``): always graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from hpcflow.errors import UnimplementedError
from hpcflow.graph.graph import device as _device
from hpcflow.ops.compat.other_versions import executing_eagerly
from hpcflow.ops.flow.py_func import py_func
from hpcflow.ops.state.handle_variables import ResourceVariable as Variable
from hpcflow.platform.device_lib import list_local_devices

__all__ = ["EAGER_MODE", "GRAPH_MODE", "Context", "Variable", "context", "defun", "device",
           "eager_mode", "enable_eager_execution", "executing_eagerly", "graph_mode",
           "in_eager_mode", "in_graph_mode", "list_devices", "num_gpus", "py_func",
           "run_all_tests_in_graph_and_eager_modes",
           "run_test_in_graph_and_eager_modes"]  # fmt: skip

GRAPH_MODE, EAGER_MODE = 0, 1


class Context:
    """The execution context of a program, the same everywhere: it builds graphs."""

    def executing_eagerly(self) -> bool:
        """Return False: there are graphs only."""
        return False

    in_eager_mode = executing_eagerly

    def in_graph_mode(self) -> bool:
        """Return True: there are graphs only."""
        return True

    def num_gpus(self) -> int:
        """Return how many GPUs this process has."""
        return num_gpus()

    @property
    def device_name(self) -> None:
        """No device: what has none is placed when a step is compiled."""
        return None


_context = Context()


def context() -> Context:
    """Return the one context there is."""
    return _context


def in_graph_mode() -> bool:
    """Return True: there are graphs only."""
    return True


in_eager_mode = executing_eagerly
device = _device


@contextlib.contextmanager
def graph_mode() -> Iterator[None]:
    """Change nothing: graphs are built everywhere."""
    yield


def eager_mode() -> Any:
    """Raise ``UnimplementedError``: operations are not run as they are made."""
    return enable_eager_execution()


def enable_eager_execution(*args: Any, **kwargs: Any) -> Any:
    """Raise ``UnimplementedError``: operations are not run as they are made."""
    raise UnimplementedError(None, None, "eager execution: operations are added to graphs, which a "
                                         "Session runs; there is no other mode")


def list_devices() -> list[str]:
    """Return the names of the devices of this process."""
    return [device.name for device in list_local_devices()]


def num_gpus() -> int:
    """Return how many GPUs this process has."""
    return sum(device.device_type == "GPU" for device in list_local_devices())


def defun(func: Callable | None = None, **options: Any) -> Callable:
    """Return `func`: what it builds becomes part of the graph where it is called. Without `func`,
    return a decorator."""
    return (lambda function: function) if func is None else func


def run_test_in_graph_and_eager_modes(func: Callable[..., Any] | None = None, *args: Any,
                                      **kwargs: Any) -> Any:
    """Return the test as it is, run in the default graph; without `func`, return a decorator."""
    return (lambda function: function) if func is None else func


run_all_tests_in_graph_and_eager_modes = run_test_in_graph_and_eager_modes
