"""Session: runs parts of a graph on the devices of one process or of a cluster."""

from __future__ import annotations

import itertools
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from hpcflow import kernels
from hpcflow.base.held_signals import held, run_held
from hpcflow.errors import AbortedError, OpError
from hpcflow.graph.defaults import default_session
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.likes import Fetches
from hpcflow.graph.notebook import graph_rows, table
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.runtime.session.defaults import default_config
from hpcflow.runtime.session.fetching import FetchMap, cache_key, feed_converter, flat_feeds
from hpcflow.runtime.session.local_engine import LocalEngine
from hpcflow.runtime.session.partial import PartialRuns
from hpcflow.runtime.session.partings import Partings
from hpcflow.runtime.steps import (  # noqa: F401 - which tasks, and shape functions, call
    evaluation,
    function_calls,
)
from hpcflow.runtime.steps.compiled import (
    StepOptions,
    run_with_options,
)
from hpcflow.runtime.steps.cost_graph import CostSteps
from hpcflow.runtime.steps.tracing import run_traced, wants_trace

if TYPE_CHECKING:
    from google.protobuf.message import Message

_session_ids = itertools.count(1)


class _Runner:
    """One (fetches, feeds) combination, ready to run."""

    __slots__ = ("step", "converters", "fetches", "rebuild", "is_single", "mutations", "version",
                 "turns")  # fmt: skip

    def __init__(self, step: Callable, converters: list[Callable], fetches: FetchMap,
                 mutations: int, version: int, turns: Callable[[], bool] | None = None) -> None:
        self.step = step
        self.turns = turns
        self.converters = converters
        self.fetches = fetches
        self.rebuild = fetches.rebuild
        self.is_single = fetches.is_single
        self.mutations = mutations
        self.version = version

    def in_order(self, positions: list[int]) -> _Runner:
        """The same step for feeds given in another order: the i-th is the `positions[i]`-th."""
        if positions == list(range(len(positions))):
            return self
        step = self.step
        source = [positions.index(i) for i in range(len(positions))]
        return _Runner(lambda feeds, *rest: step([feeds[i] for i in source], *rest),
                       [self.converters[p] for p in positions], self.fetches, self.mutations,
                       self.version)


# The sessions of this process.
_sessions: weakref.WeakSet[BaseSession] = weakref.WeakSet()


class BaseSession:
    """Fetches, feeds and the cache of compiled steps; where they run is up to the engine."""

    def __init__(self, target: str | bytes | None = "", graph: Graph | None = None,
                 config: Mapping[str, Any] | Message | None = None) -> None:
        if graph is not None and not isinstance(graph, Graph):
            raise TypeError(f"graph must be a tf.Graph, but got {type(graph)}")
        if config is not None and not hasattr(config, "allow_soft_placement"):
            raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}")
        if target is None or isinstance(target, bytes):
            target = (target or b"").decode()
        if not isinstance(target, str):
            raise TypeError(f"target must be a string, but got {type(target)}")
        kernels.load()
        config = default_config() if config is None else config
        self._config = config
        self._graph = graph or get_default_graph()
        self._target = target
        self._options = StepOptions(config)
        self._costs = CostSteps(None if config is None else getattr(config, "graph_options", None))
        self._closed = self._aborted = False
        self._lock = threading.RLock()
        self._steps: dict[Any, _Runner] = {}  # by structure
        # By the very arguments of a call, without and with feeds.
        self._unfed: dict[Any, _Runner] = {}
        self._fed: dict[Any, _Runner] = {}
        self._remembered: dict[str, str] = {}
        self._id = f"session-{next(_session_ids)}"
        self._engine = self._make_engine()
        self._options = self._engine.options
        self._partial_runs = PartialRuns(self)
        self._partings = Partings(self)
        self._unfinished: list[Callable[[], None]] = []  # what waits for work in the background
        _sessions.add(self)

    def _make_engine(self) -> Any:
        if not self._target:
            return LocalEngine(self._options)
        from hpcflow.runtime.cluster.session_cluster import engine_of_session

        return engine_of_session(self._target, self._id, self._options)

    # ------------------------------------------------------------ facts

    @property
    def graph(self) -> Graph:
        """The graph that was launched in this session."""
        return self._graph

    @property
    def graph_def(self) -> Any:
        """A ``GraphDef`` of the graph as it is now; with shapes if the options say so."""
        return self._graph.as_graph_def(add_shapes=self._options.infer_shapes)

    @property
    def sess_str(self) -> str:
        """The target this session runs on."""
        return self._target

    def _repr_html_(self) -> str:
        rows = [("runs on", self._target or "this process"),
                ("state", "closed" if self._closed else "open"),
                ("compiled steps", len(self._steps)), *graph_rows(self._graph)]
        return table("Session", rows)

    def list_devices(self) -> list:
        """The devices that steps of this session may use (name, type), on all of its tasks."""
        self._engine.connect()
        return self._engine.devices()

    # ------------------------------------------------------------ running

    def run(self, fetches: Any, feed_dict: Mapping | None = None, options: Message | None = None,
            run_metadata: Message | None = None) -> Any:
        """Run the part of the graph that `fetches` need and return their values.

        `fetches` is a tensor, an operation, a name, or any nest of lists, tuples, namedtuples and
        dicts of these; the result has the same structure, None for operations. `feed_dict` gives
        values for tensors. Raises ``RuntimeError`` when the session is closed, ``TypeError`` and
        ``ValueError`` for wrong fetches or feeds, and an ``OpError`` when an op fails.
        """
        kind = type(fetches)
        key = fetches if kind is Tensor or kind is Operation else cache_key(fetches)
        try:
            runner = self._fed[key, tuple(feed_dict)] if feed_dict else self._unfed[key]
        except (KeyError, TypeError):
            runner = None
        if (runner is None or runner.mutations != self._graph._mutations
                or runner.version != self._engine.version or options is not None
                or run_metadata is not None):
            return self._run_slowly(fetches, feed_dict, options, run_metadata)
        if feed_dict:
            try:
                fed = feed_dict.values()
            except AttributeError:  # it only lists what a dictionary would have as keys
                return self._run_slowly(fetches, feed_dict, options, run_metadata)
            values = runner.step([c(v) for c, v in zip(runner.converters, fed, strict=True)])
        else:
            values = runner.step(())
        if held:
            run_held()
        return values[0] if runner.is_single else runner.rebuild(values)

    def _run_turns(self, op: Operation) -> None:
        """Run `op`; if it moves elements between queues, as often as that needs no waiting."""
        runner = self._unfed.get(op)
        if (runner is None or runner.turns is None or not self._valid(runner)
                or not runner.turns()):
            self.run(op)

    def _run_slowly(self, fetches: Fetches, feed_dict: Mapping[Any, Any] | None,
                    options: Message | None, run_metadata: Message | None) -> Any:
        """Look the step up by structure; compile it if it is new."""
        self._check_usable()
        if feed_dict is not None and not isinstance(feed_dict, Mapping):
            raise TypeError(f"feed_dict must be a dictionary, got {type(feed_dict).__name__}")
        fed = dict(flat_feeds(feed_dict or {}, self._graph))
        # In one order, however the dictionary was written.
        feeds = sorted(fed, key=lambda t: (t.op._id, t.value_index))
        with_costs = (self._costs.is_due((cache_key(fetches), tuple(feeds)))
                      and run_metadata is not None)
        traced = wants_trace(options, run_metadata) or with_costs
        if run_metadata is not None:
            run_metadata.Clear()  # of an earlier step
        runner = self._runner(fetches, feeds, traced)
        values = [convert(fed[t]) for convert, t in zip(runner.converters, feeds, strict=True)]
        if traced:
            return runner.rebuild(runner.step(values, options, run_metadata, with_costs))
        if not self._costs.every:  # where runs are counted, all come here
            self._remember(fetches, feed_dict, feeds, runner)
        results = run_with_options(runner.step, values, options)
        if held:
            run_held()
        return runner.rebuild(results)

    def _check_usable(self) -> None:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if self._aborted:
            raise AbortedError(None, None, f"Session.reset() was called for '{self._target}': the "
                               "variables of this session may be gone; make a new one")
        if self._graph.version == 0:
            raise RuntimeError("The Session graph is empty.  Add operations to the graph before "
                               "calling run().")

    def _runner(self, fetches: Fetches, feeds: list[Tensor], traced: bool) -> _Runner:
        """The compiled step, found by the structure of its fetches."""
        key = (cache_key(fetches), tuple(feeds), traced)
        with self._lock:
            self._check_usable()  # it may have been closed meanwhile
            try:
                runner = self._steps.get(key)
            except TypeError:  # what cannot be hashed cannot be fetched: let the map say so
                FetchMap(fetches, self._graph)
                raise
            if runner is None or not self._valid(runner):
                runner = self._steps[key] = self._compile(fetches, feeds, traced)
        return runner

    def _valid(self, runner: _Runner) -> bool:
        return (runner.mutations == self._graph._mutations
                and runner.version == self._engine.version)

    def _remember(self, fetches: Fetches, feed_dict: Mapping[Any, Any] | None, feeds: list[Tensor],
                  runner: _Runner) -> None:
        """Let later calls with the very same arguments go straight to the step."""
        key = cache_key(fetches)
        try:
            if not feed_dict:
                self._unfed[key] = runner
                return
            given = [self._graph.as_graph_element(k) for k in feed_dict]
            if len(given) == len(feeds):
                self._fed[key, tuple(feed_dict)] = runner.in_order([feeds.index(t) for t in given])
        except (TypeError, ValueError):  # found by structure next time
            pass

    def partial_run_setup(self, fetches: Sequence[Any], feeds: Sequence[Any] | None = None) -> str:
        """Start a step whose `feeds` will arrive, and whose `fetches` are asked for, bit by bit.

        Returns a handle for ``partial_run``; every feed can be given once, and every fetch asked
        for once. Raises ``InvalidArgumentError`` if there is nothing to fetch.
        """
        self._check_usable()
        return self._partial_runs.setup(fetches, feeds)

    def partial_run(self, handle: str, fetches: Fetches, feed_dict: Mapping | None = None) -> Any:
        """Continue a partial run: give it more feeds, and return the values of `fetches`.

        What earlier calls computed is not computed again. Raises ``InvalidArgumentError`` for
        feeds and fetches that were not named in the setup, were given or taken before, or need
        feeds that are still missing.
        """
        self._check_usable()
        return self._partial_runs.run(handle, fetches, feed_dict)

    def _compile(self, fetches: Fetches | None, feeds: list[Tensor], traced: bool) -> _Runner:
        mapped = FetchMap(fetches, self._graph, self)
        self._partings.note(e.op if isinstance(e, Tensor) else e for e in mapped.elements)
        mutations, version = self._graph._mutations, self._engine.version
        step = self._engine.compile(mapped.elements, feeds, self._remembered, self._id,
                                    traced=traced)
        converters = [feed_converter(t) for t in feeds]
        run = partial(run_traced, step) if traced else step.run
        return _Runner(run, converters, mapped, mutations, version,
                       getattr(step, "run_turns", None))

    # ------------------------------------------------------------ life

    def close(self) -> None:
        """Release what the session holds; running it afterwards is a ``RuntimeError``.

        What is being saved in the background is completed first; if that fails, its error is raised
        when the session is closed.
        """
        with ExitStack() as afterwards:
            afterwards.callback(self._close)
            for finish in self._unfinished:
                finish()

    def _close(self) -> None:
        if not (self._closed or self._aborted):
            self._partings.run()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._forget_steps()
        self._partial_runs.close()
        self._engine.close()

    def _take_leave(self) -> None:
        """Run the operations that others wait for: training with this session is over, although it
        stays open."""
        if not (self._closed or self._aborted):
            self._partings.run(is_closed=False)

    def _follow_chief(self) -> None:
        """Let steps fail once the chief of the cluster, which is another task, is lost."""
        self._engine.follow_chief()

    def _abort(self) -> None:
        """Let each run be an ``AbortedError`` from now on, since the session's variables are
        gone."""
        with self._lock:
            self._aborted = True
            self._forget_steps()

    def _forget_steps(self) -> None:
        for cache in (self._steps, self._unfed, self._fed):
            cache.clear()

    def as_default(self) -> Any:
        """Return a context manager that makes this the default session."""
        return default_session(self)

    def make_callable(self, fetches: Sequence[Any], feed_list: list | None = None,
                      accept_options: bool = False) -> Any:
        """Return a function that runs a fixed step; its arguments are the values of `feed_list`.

        With `accept_options` it takes the keywords `options` and `run_metadata` too.
        """
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError(f"feed_list must be a list, got {type(feed_list).__name__}")
        feeds = list(feed_list or ())
        FetchMap(fetches, self._graph, self)  # what cannot be fetched is refused now

        def call(*values: Any, **keywords: Any) -> Any:
            if len(values) != len(feeds):
                raise ValueError(f"Expected {len(feeds)} feed values, got {len(values)}")
            if keywords and not accept_options:
                raise TypeError(f"Unexpected keywords: {', '.join(keywords)}")
            fed = dict(zip(feeds, values, strict=True)) if feeds else None
            return self.run(fetches, fed, **keywords)

        return call

    def _make_callable_from_options(self, callable_options: Message) -> Callable:
        """Return a function that runs the step of a ``CallableOptions``: its arguments are the
        values of the feeds, and perhaps `run_metadata`; it returns the list of fetched values.
        """
        options = callable_options.__deepcopy__()
        run_options = options.run_options if options.HasField("run_options") else None
        targets = [self._graph.as_graph_element(n, allow_tensor=False) for n in options.target]
        call = self.make_callable([list(options.fetch), targets], list(options.feed), True)

        def run(*values: Any, run_metadata: Any = None) -> list:
            return call(*values, options=run_options, run_metadata=run_metadata)[0]

        return run


class Session(BaseSession):
    """A session to use with ``with``: it becomes the default session and graph inside the block.

    Args:
        target: "" for this process, or a server's ``target``.
        graph: the graph to run; the default graph if None.
        config: a ``ConfigProto``.
    """

    def __init__(self, target: str = "", graph: Graph | None = None,
                 config: Message | None = None) -> None:
        super().__init__(target, graph, config)
        self._contexts: list[Any] = []

    def __enter__(self) -> Session:
        if self._contexts:
            raise RuntimeError("Session context managers are not re-entrant. Use "
                               "`Session.as_default()` to enter a session several times.")
        for context in (self._graph.as_default(), self.as_default()):
            context.__enter__()
            self._contexts.append(context)
        return self

    def __exit__(self, kind: type | None, value: Any, trace: Any) -> None:
        if isinstance(value, OpError):
            pass  # the message already says all
        while self._contexts:
            self._contexts.pop().__exit__(kind, value, trace)
        self.close()

    @staticmethod
    def reset(target: str, containers: list[str] | None = None,
              config: Message | None = None) -> None:
        """Clear resource containers on `target` (all of them when None).

        This process's sessions on `target` end: to run one of them is an ``AbortedError``.
        """
        from hpcflow.runtime.cluster.server import reset_target

        reset_target(target, containers, config)
        for session in list(_sessions):
            if session._target == target:
                session._abort()


class InteractiveSession(BaseSession):
    """A session that makes itself the default when it is created, for interactive use.

    It warns (``UserWarning``) if another one is open. Devices are only asked for that a step needs.
    """

    _open: ClassVar[weakref.WeakSet[InteractiveSession]] = weakref.WeakSet()

    def __init__(self, target: str = "", graph: Graph | None = None,
                 config: Message | None = None) -> None:
        from tensorboard.compat.proto.config_pb2 import ConfigProto

        pruned = ConfigProto()
        given = default_config() if config is None else config
        if isinstance(given, ConfigProto):
            pruned.CopyFrom(given)
        pruned.graph_options.place_pruned_graph = True
        super().__init__(target, graph, pruned if isinstance(given, ConfigProto | None) else given)
        if InteractiveSession._open:
            warnings.warn(
                "An interactive session is already active. This can cause out-of-memory errors in "
                "some cases. You must explicitly call `InteractiveSession.close()` to release "
                "resources held by the other session(s).", stacklevel=2)
        InteractiveSession._open.add(self)
        self._explicit_graph = graph
        self._default = self.as_default()
        self._default.__enter__()
        self._default_graph = None
        if graph is not None:
            self._default_graph = graph.as_default()
            self._default_graph.__enter__()

    def close(self) -> None:
        """Close the session and stop being the default."""
        super().close()
        InteractiveSession._open.discard(self)
        if self._default_graph is not None:
            self._default_graph.__exit__(None, None, None)
            self._default_graph = None
        if self._default is not None:
            self._default.__exit__(None, None, None)
            self._default = None
