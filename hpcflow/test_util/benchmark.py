"""Benchmarks of operations, written like test cases."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.likes import SessionLike, TensorLike

def benchmark_config() -> Message:
    """Return a session configuration for benchmarks, in which the graph is not optimized."""
    from tensorboard.compat.proto.config_pb2 import ConfigProto
    from tensorboard.compat.proto.rewriter_config_pb2 import RewriterConfig

    config = ConfigProto()
    config.graph_options.rewrite_options.dependency_optimization = RewriterConfig.OFF
    return config


_registered: list[type[Benchmark]] = []


class Benchmark:
    """Base of benchmarks: methods whose names begin with ``benchmark`` are run by ``test.main``.

    A class with "Abstract" in its name, or without such methods, is only a base of others.
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not cls.is_abstract():
            _registered.append(cls)

    @classmethod
    def is_abstract(cls) -> bool:
        """Return whether the class is only a base of benchmarks."""
        return "Abstract" in cls.__name__ or not any(n.startswith("benchmark") for n in dir(cls))

    def report_benchmark(self, iters: int | None = None, cpu_time: float | None = None,
                         wall_time: float | None = None, throughput: float | None = None,
                         extras: Mapping | None = None, name: str | None = None) -> None:
        """Print one line of JSON with what is given: times in seconds, throughput in MB/s."""
        entry = {"name": f"{type(self).__name__}.{name or 'benchmark'}", "iters": iters,
                 "cpu_time": cpu_time, "wall_time": wall_time, "throughput": throughput,
                 "extras": dict(extras) if extras else None}
        print(json.dumps({k: v for k, v in entry.items() if v is not None}))

    def run_op_benchmark(self, sess: SessionLike, op_or_tensor: TensorLike,
                         feed_dict: dict | None = None, burn_iters: int = 2, min_iters: int = 10,
                         store_trace: bool = False, store_memory_usage: bool = True,
                         name: str | None = None, extras: Mapping | None = None,
                         mbs: float = 0) -> dict[str, Any]:
        """Time an operation or a tensor, print the result and return it.

        Args:
            sess: the session.
            op_or_tensor: what is run; its value is not fetched.
            feed_dict: values of tensors.
            burn_iters: runs before those that are timed.
            min_iters: runs that are timed.
            store_trace: also return the trace of one run, under ``"full_trace_chrome_format"``.
            store_memory_usage: accepted; memory is not recorded.
            name: name of the benchmark.
            extras: more entries for the report.
            mbs: megabytes that one run processes, for the throughput.

        Returns: a dict with ``iters``, ``wall_time`` (the median of a run, seconds),
        ``throughput`` and ``extras``.
        """
        op = getattr(op_or_tensor, "op", op_or_tensor)
        for _ in range(burn_iters):
            sess.run(op, feed_dict)
        times = np.empty(min_iters)
        for i in range(min_iters):
            start = time.perf_counter()
            sess.run(op, feed_dict)
            times[i] = time.perf_counter() - start
        median = float(np.median(times)) if min_iters else 0.0
        notes = {**(extras or {}), "wall_time_mean": float(times.mean()) if min_iters else 0.0,
                 "wall_time_stdev": float(times.std()) if min_iters else 0.0}
        if store_trace:
            notes["full_trace_chrome_format"] = _trace(sess, op, feed_dict)
        result: dict[str, Any] = {"iters": min_iters, "wall_time": median, "extras": notes,
                  "throughput": mbs / median if median else 0.0}
        self.report_benchmark(name=name, **result)
        return result


def _trace(sess: SessionLike, op: Any, feed_dict: dict | None) -> str:
    """The steps of one run as text."""
    from tensorboard.compat.proto.config_pb2 import RunMetadata, RunOptions

    metadata = RunMetadata()
    sess.run(op, feed_dict, RunOptions(trace_level=RunOptions.FULL_TRACE), metadata)
    return str(metadata)


def run_benchmarks(pattern: str) -> None:
    """Run the benchmarks whose ``Class.method`` matches the regular expression `pattern`."""
    for kind in _registered:
        for method in dir(kind):
            if method.startswith("benchmark") and re.search(pattern, f"{kind.__name__}.{method}"):
                getattr(kind(), method)()
