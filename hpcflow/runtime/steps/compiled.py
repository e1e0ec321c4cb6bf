"""Compiled steps of one process: what a session keeps per (fetches, feeds)."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow import config
from hpcflow.base.held_signals import holding
from hpcflow.compiler.distribute.compress import Rule
from hpcflow.compiler.distribute.place import DeviceInfo, Placer
from hpcflow.compiler.distribute.placement_file import Placement
from hpcflow.compiler.distribute.requests import check_requests
from hpcflow.compiler.emit.executable import Executable
from hpcflow.compiler.ir.step_graph import EQUAL_BITS, Node
from hpcflow.compiler.passes import PassContext, compile_parts
from hpcflow.compiler.regions.bind import instantiate
from hpcflow.errors import AbortedError, DeadlineExceededError, OpError
from hpcflow.graph.function_library import FunctionLibrary
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.host import fp_mode, threads
from hpcflow.host.bits import keeping_bits
from hpcflow.host.fp_mode import restore, silence
from hpcflow.host.tuning import runtime as tuning
from hpcflow.kernels import late_errors
from hpcflow.kernels.registry import find_kernel
from hpcflow.runtime.executor.deadline import DirectRun, check_end, deadline_after
from hpcflow.runtime.executor.event_loop import event_loop
from hpcflow.runtime.executor.executor import Step, check_results
from hpcflow.runtime.executor.gpus import GpuOptions
from hpcflow.runtime.executor.turns import Turns
from hpcflow.runtime.steps.runs import Runs
from hpcflow.runtime.steps.task import KernelContext, Task
from hpcflow.runtime.steps.tracing import step_stats

if TYPE_CHECKING:
    from google.protobuf.message import Message


class StepOptions:
    """The options of a session for compiling, from its ``ConfigProto``."""

    def __init__(self, proto: Any = None) -> None:
        self.proto = proto
        self.soft_placement = bool(proto is not None and proto.allow_soft_placement)
        self.place_pruned = bool(proto is not None and proto.graph_options.place_pruned_graph)
        self.log_placement = bool(proto is not None and proto.log_device_placement)
        self.timeout = (proto.operation_timeout_in_ms / 1000 if proto is not None
                        and proto.operation_timeout_in_ms else None)
        self.optimize = not (proto is not None and
                             proto.graph_options.optimizer_options.opt_level == -1)
        self.pinned = None
        if config.flags.placement:
            self.pinned = Placement.load(config.flags.placement).choice()
        self.equal_bits = False
        self.infer_shapes = proto is not None and proto.graph_options.infer_shapes
        self.recompute = _recomputation(proto)
        halved = proto is not None and proto.graph_options.enable_bfloat16_sendrecv
        self.compress = (Rule("bfloat16"),) if halved else ()
        self.device_counts = dict(proto.device_count) if proto is not None else {}
        self.gpus = GpuOptions.of(proto)
        if proto is not None and proto.intra_op_parallelism_threads > 0:
            threads.limit(proto.intra_op_parallelism_threads)  # one pool serves the process
        if proto is not None and proto.inter_op_parallelism_threads > 0:
            threads.limit_at_once(proto.inter_op_parallelism_threads)


def _recomputation(proto: Message | None) -> str:
    """Return the part of the forward pass that is computed again in the backward pass: "",
    "hinted", "all"."""
    if config.flags.recompute:
        return "all"
    if proto is None:
        return ""
    options = proto.graph_options.rewrite_options
    wanted = options.MemOptType.Name(options.memory_optimization)
    return {"MANUAL": "hinted", "RECOMPUTATION_HEURISTICS": "all", "HEURISTICS": "all"}.get(
        wanted, "")


def make_parts(fetches: list[Tensor | Operation], feeds: list[Tensor], task: Task,
               devices: list[DeviceInfo], context: KernelContext, remembered: dict[str, str],
               options: StepOptions, incremental: bool = False,
               fed: tuple[Dims, ...] | None = None) -> dict[str, list[Node]]:
    """Compile fetches and feeds to task -> nodes, for a master at `task`; `incremental` if the
    feeds of a step arrive one by one; `fed` if it is for feeds of these shapes alone."""
    placer = Placer(devices, task.name, options.soft_placement,
                    options.log_placement and fed is None,  # it has been logged for all shapes
                    options.pinned)

    def cpu_kernel(node: Node, values: list) -> Any:
        kernel = find_kernel(node.type, "CPU", node.attrs)
        assert kernel is not None  # folding looked it up
        return instantiate(node, kernel, task.cpu, context, values)

    rules = (*options.compress, *(fetches[0].graph._compression if fetches else ()))
    passes = PassContext(placer, remembered, cpu_kernel, options.recompute, rules, fed)
    equal_bits = options.equal_bits or wants_equal_bits(fetches)
    make = keeping_bits(compile_parts) if equal_bits else compile_parts
    fp_mode.flush()  # what is computed now is what a step would compute
    try:
        parts = make(fetches, feeds, task.cpu.name, passes, options.optimize, incremental)
    finally:
        fp_mode.keep()
    if equal_bits:
        for node in itertools.chain.from_iterable(parts.values()):
            node.attrs[EQUAL_BITS] = True
    if fetches and fed is None and not options.place_pruned:
        check_requests(fetches[0].graph, placer)
    return parts


def wants_equal_bits(fetches: Sequence[Tensor | Operation]) -> bool:
    """True if no result of the graph of `fetches` may depend on what has been compiled so far."""
    return bool(fetches) and fetches[0].graph._equal_bits


def library_of(fetches: list[Tensor | Operation], feeds: list[Tensor]) -> FunctionLibrary | None:
    """The functions of the graph of a step."""
    return next((x.graph._library for x in (*fetches, *feeds)), None)


#: Ranks of a job replace the name by a class of their own; this is of both.
_SystemExit = SystemExit
_step_ids = itertools.count(1)


class LocalStep:
    """A step that runs in this process alone."""

    def __init__(self, executable: Executable, names: list[str], feed_count: int,
                 timeout: float | None = None, running: Runs | None = None) -> None:
        self.executable = executable
        self.running = running or Runs()
        self.names = names
        self.feed_count = feed_count
        self.timeout = timeout
        self.acts_on_queues = executable.acts_on_queues
        self.partition_graphs: list = []  # of a traced step: its GraphDefs
        self.run = self._direct() if executable.direct is not None else self._executed
        self._turns = Turns.of(executable)

    def _direct(self) -> Callable[[tuple], list]:
        """Return the function that runs a whole step as one call."""
        function, order = self.executable.direct
        if function is None:
            return self._nothing
        item: Any = next(i for i in self.executable.items if i.region is not None)
        in_order = order == tuple(range(self.feed_count))

        def run(feeds: tuple, timeout: float | None = None, step: DirectRun | None = None) -> Any:
            limit = timeout or self.timeout
            deadline = None if limit is None else deadline_after(limit)
            entered = silence()
            try:
                found = function(step, *feeds) if in_order else function(
                    step, *[feeds[i] for i in order])
                if late_errors.count():
                    late_errors.raise_any()
            except BaseException as e:  # noqa: BLE001  (raised again, explained)
                late_errors.discard()
                error = item.region.explain(e, item.nodes[0].device, None)
                raise error from error.__cause__
            finally:
                restore(entered)
            if deadline is not None:
                check_end(deadline)
            return found

        def run_loops(feeds: tuple, timeout: float | None = None) -> Any:
            step = DirectRun(timeout or self.timeout)
            self.running.add(step)
            try:
                return run(feeds, timeout, step)
            finally:
                self.running.discard(step)

        return run_loops if item.region.has_loops else run

    def _nothing(self, feeds: tuple, timeout: float | None = None) -> list:
        return [None] * len(self.names)

    def _executed(self, feeds: tuple, timeout: float | None = None) -> list:
        """Run the step through the executor; while it is parked, this thread drives the event
        loop."""
        run = self.open()
        step = run.step
        timeout = timeout or self.timeout
        step.deadline = deadline_after(timeout)
        self.running.add(run)
        entered = silence()
        try:
            step.start(feeds)
            if not step.over:
                run.wait(run.finished, timeout)
        finally:
            restore(entered)
            self.running.discard(run)
        check_results(step, self.names)
        if not self.acts_on_queues:  # what it has taken is nowhere but in its results
            check_end(step.deadline)
        step.wake = None  # it refers to the run, which refers to the step: no work of a collector
        return step.results

    def run_turns(self) -> bool:
        """Run the step as often as it need not wait, if it moves elements between queues; False if
        it has not run at all."""
        self.running.check()
        if self._turns is None:
            return False
        entered = silence()
        try:
            return self._turns.run()
        finally:
            restore(entered)

    def open(self) -> LocalRun:
        """A run that its user drives (a partial run)."""
        return LocalRun(self.executable, self.running)


class LocalRun:
    """One run of a :class:`LocalStep` through the executor; it is in `running` while its thread
    waits."""

    __slots__ = ("step", "start", "_loop", "_running", "_gate", "_is_driven")

    def __init__(self, executable: Executable, running: Runs) -> None:
        self._running = running
        self._loop = event_loop()
        self._gate = threading.Lock()  # released when the step is to go on
        self._gate.acquire()
        self._is_driven = False  # whoever drives the event loop lets the step go on
        self.step = Step(executable, step_id=next(_step_ids), wake=self._wake)
        self.start = self.step.start

    def _wake(self, step: Step) -> None:
        """Let the step go on: the thread that waits for it, if nothing has to be polled."""
        try:
            self._gate.release()
        except RuntimeError:  # released already
            pass
        if self._is_driven:
            self._loop.soon(step.advance)

    def _run_until(self, done: Callable[[], Any], deadline: float | None = None,
                   what: str = "a step", stalled: Callable[[float], None] | None = None) -> None:
        """Drive the event loop, or sleep until the step can go on."""
        self._is_driven = self._loop.polls
        self._asleep(0.0)  # from now on `_wake` knows who goes on
        self._loop.run_until(done, deadline, what, stalled,
                             None if self._is_driven else self._asleep)

    def _asleep(self, seconds: float) -> bool:
        """Sleep until the step can go on, and let it; False if that has not come in time."""
        if not self._gate.acquire(timeout=seconds):
            return False
        self.step.advance()
        return True

    def finished(self) -> bool:
        """True when nothing is outstanding, and the step has been put away."""
        return self.step.over

    def wait(self, until: Callable[[], Any], timeout: float | None) -> None:
        """Drive until ``until()`` is true; the step is cancelled and drained if that fails."""
        deadline = deadline_after(timeout)
        self._running.add(self)
        try:
            self._run_until(until, deadline, "a step",
                            lambda seconds: report_stall(self.step, seconds))
        except DeadlineExceededError as e:
            late = timed_out(e, [self.step.describe_waiting()])
            self.cancel(late)
            if self.step.over and self.step.error is None:  # it was done before that
                return
            add_left(late, self.step.left)
            raise late from None
        except BaseException as e:
            why = interruption(e)
            self.cancel(why, drain_seconds(e))
            if self.step.over:
                self.step.withdraw(why)
            raise
        finally:
            self._running.discard(self)

    def cancel(self, error: BaseException | None, seconds: float | None = None) -> None:
        """Stop the step, and wait a while, or for so long at most, for what it had started."""
        self.step.cancel(error)
        drain(self._run_until, self.finished, seconds)

    def end(self) -> None:
        """Do nothing: no resources are kept between runs."""

    def stats(self) -> list[Any]:
        """The ``StepStats`` of a traced run."""
        return [step_stats(self.step)]


def interruption(error: BaseException) -> OpError:
    """Return what those learn that take part in a step whose client `error` has interrupted."""
    if isinstance(error, OpError):
        return error
    said = traceback.format_exception_only(type(error), error)[-1].strip()
    return AbortedError(None, None, f"The step was interrupted: {said}")


def drain_seconds(error: BaseException) -> float:
    """Return for how long a step that `error` interrupts may drain. The end of the program waits
    for little: its exception may have come in the midst of what the step waits for."""
    ends = isinstance(error, _SystemExit)
    return tuning.STEP_EXIT_SECONDS if ends else tuning.STEP_DRAIN_SECONDS


def drain(run_until: Callable[..., None], finished: Callable[[], Any],
          seconds: float | None) -> None:
    """Wait a while, or for so long at most, for what a step has started that is to stop. At first
    nothing interrupts that, as nearly all steps stop at once."""
    end = time.monotonic() + (tuning.STEP_DRAIN_SECONDS if seconds is None else seconds)
    with contextlib.suppress(DeadlineExceededError):
        with contextlib.suppress(DeadlineExceededError), holding():
            run_until(finished, min(end, time.monotonic() + tuning.STEP_EXIT_SECONDS))
        run_until(finished, end)


def compiled_form() -> bool:
    """True if regions are formed (HPCFLOW_COMPILE)."""
    return bool(config.flags.compile)


def run_with_options(run: Callable, values: list, options: Message | None) -> list:
    """Call a step's ``run`` with what a ``RunOptions`` says: its timeout goes before the
    session's."""
    timeout = options.timeout_in_ms / 1000 if options is not None else 0
    return run(values, timeout) if timeout else run(values)


def timed_out(error: DeadlineExceededError, waits: list[str]) -> DeadlineExceededError:
    """Return `error` of a step, with a list of what its parts wait for."""
    return DeadlineExceededError(None, None, "\n".join([f"{error.message}, which waits for:",
                                                        *waits]))


def add_left(error: OpError, left: list[str]) -> None:
    """Add to the message of a step that was stopped what it has done to queues all the same."""
    if left:
        error._message = "\n".join([error.message, "What it has done, and stays so:", *left])


def report_stall(step: Step, seconds: float, ranks: Iterable[int] = (), more: str = "") -> None:
    """Say on standard error what a step waits for, and what has passed last between this rank and
    those that are waited for: `ranks`, and those that the step knows of."""
    where = f"[rank {step.rank}] " if step.rank is not None else ""
    print(f"{where}step {step.step_id} of {step.executable.task} has waited {seconds:.1f} s for:\n"
          f"{step.describe_waiting()}{more}{_last_transfers(step, ranks)}",
          file=sys.stderr, flush=True)


def _last_transfers(step: Step, ranks: Iterable[int]) -> str:
    lines = [] if step.lane is None else step.lane.last_transfers(
        ranks, [item.edge.peer for item, _ in list(step.waiting.values()) if item.edge is not None])
    lines += [line for waiter in step.describers for line in waiter.last_transfers()]
    return "".join(["\n  last transfers:"] + [f"\n  {line}" for line in lines] if lines else [])
