"""Compiled steps of one process: what a session keeps per (fetches, feeds)."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

from hpcflow import config
from hpcflow.compiler.bind import instantiate
from hpcflow.compiler.executable import Executable
from hpcflow.compiler.ir import Node
from hpcflow.compiler.passes import PassContext, compile_parts
from hpcflow.compiler.place import DeviceInfo, Placer
from hpcflow.errors import DeadlineExceededError, OpError
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.kernels.registry import find_kernel
from hpcflow.runtime.executor import Step, check_results
from hpcflow.runtime.float_errors import restore, silence
from hpcflow.runtime.loop import EventLoop, event_loop
from hpcflow.runtime.task import KernelContext, Task


class StepOptions:
    """How a session compiles: from its ``ConfigProto``."""

    def __init__(self, proto: Any = None) -> None:
        self.soft_placement = bool(proto is not None and proto.allow_soft_placement)
        self.log_placement = bool(proto is not None and proto.log_device_placement)
        self.timeout = (proto.operation_timeout_in_ms / 1000 if proto is not None
                        and proto.operation_timeout_in_ms else None)
        self.optimize = not (proto is not None and
                             proto.graph_options.optimizer_options.opt_level == -1)
        self.device_counts = dict(proto.device_count) if proto is not None else {}


def make_parts(fetches: list[Tensor | Operation], feeds: list[Tensor], task: Task,
               devices: list[DeviceInfo], context: KernelContext, remembered: dict[str, str],
               options: StepOptions) -> dict[str, list[Node]]:
    """Compile fetches and feeds to task -> nodes, for a master at `task`."""
    placer = Placer(devices, task.name, options.soft_placement, options.log_placement)

    def cpu_kernel(node: Node, values: list) -> Any:
        kernel = find_kernel(node.type, "CPU", node.attrs)
        assert kernel is not None  # folding looked it up
        return instantiate(node, kernel, task.cpu, context, values)

    passes = PassContext(placer, remembered, cpu_kernel)
    return compile_parts(fetches, feeds, task.cpu.name, passes, options.optimize)


# Seconds that a cancelled step may take to drain.
DRAIN_SECONDS = 10.0

_step_ids = itertools.count(1)


class LocalStep:
    """A step that runs in this process alone."""

    def __init__(self, executable: Executable, names: list[str], feed_count: int,
                 timeout: float | None = None) -> None:
        self.executable = executable
        self.names = names
        self.feed_count = feed_count
        self.timeout = timeout
        self.run = self._direct() if executable.direct is not None else self._executed

    def _direct(self) -> Callable[[tuple], list]:
        """The whole step is one call."""
        function, order = self.executable.direct
        if function is None:
            return self._nothing
        item: Any = next(i for i in self.executable.items if i.region is not None)
        in_order = order == tuple(range(self.feed_count))

        def run(feeds: tuple, timeout: float | None = None) -> Any:
            quiet = silence()
            try:
                return function(None, *feeds) if in_order else function(
                    None, *[feeds[i] for i in order])
            except BaseException as e:  # noqa: BLE001  (raised again, explained)
                error = item.region.explain(e, item.nodes[0].device, None)
                raise error from error.__cause__
            finally:
                restore(quiet)

        return run

    def _nothing(self, feeds: tuple, timeout: float | None = None) -> list:
        return [None] * len(self.names)

    def _executed(self, feeds: tuple, timeout: float | None = None) -> list:
        """Through the executor; while the step is parked, this thread drives the event loop."""
        loop = event_loop()
        step = Step(self.executable, step_id=next(_step_ids),
                    wake=lambda s: loop.soon(s.advance))
        step.start(feeds)
        if not step.finished:
            self._wait(step, loop, timeout or self.timeout)
        check_results(step, self.names)
        return step.results

    def _wait(self, step: Step, loop: EventLoop, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            loop.run_until(lambda: step.finished, deadline, "a step",
                           lambda seconds: report_stall(step, seconds))
        except BaseException as e:
            step.cancel(e if isinstance(e, OpError) else None)
            with contextlib.suppress(DeadlineExceededError):
                loop.run_until(lambda: step.finished, time.monotonic() + DRAIN_SECONDS)
            raise


def compiled_form() -> bool:
    """Whether regions are formed (HPCFLOW_COMPILE)."""
    return bool(config.flags.compile)


def run_with_options(run: Callable, values: list, options: Any) -> list:
    """Call a step's ``run`` with what a ``RunOptions`` protobuf says."""
    timeout = options.timeout_in_ms / 1000 if options is not None else 0
    return run(values, timeout) if timeout else run(values)


def report_stall(step: Step, seconds: float, more: str = "") -> None:
    """Say on standard error what a step waits for."""
    where = f"[rank {step.rank}] " if step.rank is not None else ""
    print(f"{where}step {step.step_id} of {step.executable.task} has waited {seconds:.1f} s for:\n"
          f"{step.describe_waiting()}{more}", file=sys.stderr, flush=True)
