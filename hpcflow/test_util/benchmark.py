"""Benchmarks of operations, written like test cases."""

from __future__ import annotations

import inspect
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
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


#: The environment variable that says what the names of reports' files begin with.
TEST_REPORTER_TEST_ENV = "TEST_REPORT_FILE_PREFIX"

GLOBAL_BENCHMARK_REGISTRY: list[type[Benchmark]] = []


class Benchmark:
    """Base of benchmarks: methods whose names begin with ``benchmark`` are run by ``test.main``.

    A class with "Abstract" in its name, or without such methods, is only a base of others.
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not cls.is_abstract():
            GLOBAL_BENCHMARK_REGISTRY.append(cls)

    @classmethod
    def is_abstract(cls) -> bool:
        """Return whether the class is only a base of benchmarks."""
        return "Abstract" in cls.__name__ or not any(n.startswith("benchmark") for n in dir(cls))

    def report_benchmark(self, iters: int | None = None, cpu_time: float | None = None,
                         wall_time: float | None = None, throughput: float | None = None,
                         extras: Mapping | None = None, name: str | None = None) -> None:
        """Report what is given: times in seconds, throughput in MB/s.

        `name` is that of the calling method if left out. The report is printed as a line of JSON;
        or, if the environment variable ``TEST_REPORT_FILE_PREFIX`` is set, written to the file
        whose name is that prefix and the report's name, "/" as "__", as a ``BenchmarkEntries``
        protobuf.
        ``OSError`` if there is such a file.
        """
        entry = {"name": f"{type(self).__name__}.{name or self._calling_method()}", "iters": iters,
                 "cpu_time": cpu_time, "wall_time": wall_time, "throughput": throughput,
                 "extras": dict(extras) if extras else None}
        entry = {k: v for k, v in entry.items() if v is not None}
        prefix = os.environ.get(TEST_REPORTER_TEST_ENV)
        if prefix is None:
            print(json.dumps(entry))
        else:
            name = str(entry["name"]).replace("/", "__")  # in the same directory
            with Path(f"{prefix}{name}").open("xb") as file:
                file.write(_entries_of(entry).SerializeToString())

    def _calling_method(self) -> str:
        """The method of this benchmark that is under way."""
        frame = inspect.currentframe()
        while frame is not None:
            called = frame.f_code.co_name
            if called.startswith("benchmark") and frame.f_locals.get("self") is self:
                return called
            frame = frame.f_back
        return "benchmark"

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
            store_trace: also return the trace of one run in the format of Chrome, under
                ``"full_trace_chrome_format"`` of the extras.
            store_memory_usage: also report the most bytes that tensors of a device held in one
                more run, which is traced, as ``"allocator_maximum_num_bytes_..."``.
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
        trace, maximums = _traced(sess, op, feed_dict) if store_trace or store_memory_usage else (
            "", {})
        if store_memory_usage:
            notes.update({f"allocator_maximum_num_bytes_{k}": n for k, n in maximums.items()})
        result: dict[str, Any] = {"iters": min_iters, "wall_time": median, "extras": notes,
                  "throughput": mbs / median if median else 0.0}
        self.report_benchmark(name=name or self._calling_method(), **result)
        if store_trace:
            notes["full_trace_chrome_format"] = trace
        return result


def _traced(sess: SessionLike, op: Any, feed_dict: dict | None) -> tuple[str, dict[str, int]]:
    """The trace of one run in the format of Chrome, and the most bytes of each allocator."""
    from tensorboard.compat.proto.config_pb2 import RunMetadata, RunOptions

    from hpcflow.tools.timeline import Timeline

    metadata = RunMetadata()
    sess.run(op, feed_dict, RunOptions(trace_level=RunOptions.FULL_TRACE), metadata)
    analysis = Timeline(metadata.step_stats).analyze_step_stats()
    return (analysis.chrome_trace.format_to_string(pretty=True),
            {name: most.num_bytes for name, most in analysis.allocator_maximums.items()})


def _entries_of(entry: dict[str, Any]) -> Message:
    """The ``BenchmarkEntries`` of one report."""
    from hpcflow.base.formats.protos import message_class

    entries = message_class("BenchmarkEntries")()
    extras = entry.pop("extras", {})
    added = entries.entry.add(**entry)
    for name, value in extras.items():
        kind = "string_value" if isinstance(value, str) else "double_value"
        setattr(added.extras[name], kind, value)
    return entries


def run_benchmarks(pattern: str) -> None:
    """Run the benchmarks whose ``Class.method`` matches the regular expression `pattern`."""
    for kind in list(GLOBAL_BENCHMARK_REGISTRY):
        for method in dir(kind):
            if method.startswith("benchmark") and re.search(pattern, f"{kind.__name__}.{method}"):
                getattr(kind(), method)()
