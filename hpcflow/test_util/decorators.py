"""Decorators of tests that later 1.x releases know: here every test builds a graph."""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow import config
from hpcflow.graph.graph import device as graph_device
from hpcflow.test_util.environment import gpu_device_name

if TYPE_CHECKING:
    from google.protobuf.message import Message


def _unchanged(*args: Any, **kwargs: Any) -> Any:
    """A decorator, used with or without arguments, that leaves what it decorates as it is."""
    if len(args) == 1 and callable(args[0]) and not kwargs:
        return args[0]
    return lambda decorated: decorated


run_deprecated_v1 = run_v1_only = deprecated_graph_mode_only = _unchanged
run_all_in_deprecated_graph_mode_only = _unchanged
disable_xla = disable_tfrt = enable_control_flow_v2 = disable_control_flow_v2 = _unchanged
disable_all_xla = with_control_flow_v2 = enable_output_all_intermediates = _unchanged
assert_no_new_pyobjects_executing_eagerly = assert_no_new_tensors = _unchanged
assert_no_garbage_created = build_as_function_and_v1_graph = also_run_as_tf_function = _unchanged
xla_allow_fallback = no_xla_auto_jit = enable_tf_xla_constant_folding = _unchanged


def skip_if(condition: bool | Callable[[], bool]) -> Callable[[Callable], Callable]:
    """Decorator: a test is left out if `condition`, or what it returns, is true."""

    def decorate(method: Callable) -> Callable:
        @functools.wraps(method)
        def run(*args: Any, **keywords: Any) -> None:
            if not (condition() if callable(condition) else condition):
                method(*args, **keywords)

        return run

    return decorate


def run_v2_only(method: Callable | None = None) -> Callable:
    """Decorator, with or without an empty argument list: a test of 2.x, which is skipped."""
    skipped = unittest.skip("Test is only compatible with v2")
    return skipped if method is None else skipped(method)


def run_gpu_only(method: Callable) -> Callable:
    """Decorator: a test that is skipped where there is no GPU."""

    @functools.wraps(method)
    def run(self: unittest.TestCase, *args: Any, **keywords: Any) -> None:
        if not gpu_device_name():
            self.skipTest("Test requires GPU")
        method(self, *args, **keywords)

    return run


run_cuda_only = run_gpu_only


def use_deterministic_cudnn(method: Callable) -> Callable:
    """Decorator: while a test runs, cuDNN takes ways that give the same bits again."""

    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        before, config.flags.deterministic = config.flags.deterministic, True
        try:
            return method(*args, **kwargs)
        finally:
            config.flags.deterministic = before

    return run


def device(use_gpu: bool) -> Any:
    """Return a context in which ops go to the GPU, if `use_gpu` and there is one, else the CPU."""
    return graph_device(gpu_device_name() if use_gpu and gpu_device_name() else "/device:CPU:0")


def use_gpu() -> Any:
    """Return a context in which ops go to the GPU if there is one."""
    return device(use_gpu=True)


def force_gpu() -> Any:
    """Return a context in which ops go to the GPU, which there must be when they run."""
    return graph_device(gpu_device_name() or "/device:GPU:0")


def force_cpu() -> Any:
    """Return a context in which ops go to the CPU."""
    return device(use_gpu=False)


def run_in_graph_and_eager_modes(method: Callable | None = None, config: Message | None = None,
                                 use_gpu: bool = True, **_ignored: Any) -> Callable:
    """Decorator: a method of a test case runs within a session, that of ``test_session``.

    It may be used with or without arguments.
    """

    def decorate(test: Callable) -> Callable:
        @functools.wraps(test)
        def run(self: Any, *args: Any, **kwargs: Any) -> None:
            with self.test_session(config=config, use_gpu=use_gpu):
                test(self, *args, **kwargs)

        return run

    return decorate if method is None else decorate(method)


def run_all_in_graph_and_eager_modes(cls: type) -> type:
    """Decorator of a test case: each of its tests runs within a session, as by
    :func:`run_in_graph_and_eager_modes`."""
    for name, method in list(vars(cls).items()):
        if callable(method) and name.startswith("test") and name != "test_session":
            setattr(cls, name, run_in_graph_and_eager_modes(method))
    return cls
