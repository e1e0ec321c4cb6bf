"""Profiles of a graph, and advice about one."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from hpcflow.device_spec import STREAM_ROW
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Operation
from hpcflow.profiler.flops import float_operations
from hpcflow.profiler.options import _ALL, TRAINABLE_VARIABLES
from hpcflow.profiler.report import amount, text_of
from hpcflow.profiler.tree import ProfileNode, shown

_ROOT = "_TFProfRoot"
_VIEWS = ("scope", "op", "code", "graph")


def profile(graph: Graph | None = None, run_meta: Any = None, op_log: object = None,
            cmd: str = "scope", options: dict | None = None) -> ProfileNode:
    """Print a profile of a graph, and return it.

    Args:
        graph: the default graph if None.
        run_meta: ``RunMetadata`` of a traced step, for times and memory.
        op_log: accepted.
        cmd: ``scope``: nodes by their name scopes; ``op``: by their types; ``code``: by the lines
            that made them.
        options: of :class:`ProfileOptionBuilder`.

    Returns the root, whose ``total_float_ops``, ``total_parameters``, ... are those of all nodes
    that are shown. Float operations are counted where static shapes are known.

    Raises ``ValueError`` for another view or number.
    """
    profiler = Profiler(graph)
    if run_meta is not None:
        profiler.add_step(0, run_meta)
    return profiler._profile(cmd, options)


class Profiler:
    """Profiles of several steps of one graph: :meth:`add_step`, then a profile of their means."""

    def __init__(self, graph: Graph | None = None, op_log: object = None) -> None:
        self._graph = graph or get_default_graph()
        self._steps: dict[int, Any] = {}

    def add_step(self, step: int, run_meta: Any) -> None:
        """Take in the ``RunMetadata`` of a step, by its number."""
        self._steps[step] = run_meta

    def profile_operations(self, options: dict) -> ProfileNode:
        """Print and return a profile by the types of operations."""
        return self._profile("op", options)

    def profile_name_scope(self, options: dict) -> ProfileNode:
        """Print and return a profile by name scopes."""
        return self._profile("scope", options)

    def profile_python(self, options: dict) -> ProfileNode:
        """Print and return a profile by the lines that made the operations."""
        return self._profile("code", options)

    def advise(self, options: dict | None = None) -> Any:
        """Print and return what takes most of the time; see :func:`advise`."""
        return _advice(self._nodes(-1))

    def _profile(self, view: str, options: dict | None) -> ProfileNode:
        told = {**_ALL, **(options or {})}
        if view not in _VIEWS:
            raise ValueError(f"unknown profiler view {view!r}: expected one of {_VIEWS}")
        if view == "graph":
            raise ValueError("the profiler has no view of nodes by their inputs: use scope")
        nodes = self._nodes(told["step"])
        root = {"scope": _by_scope, "op": _by_type, "code": _by_line}[view](nodes)
        result = shown(root, told)
        _write(text_of(result, told, view == "op"), told["output"])
        return result

    # ------------------------------------------------------------ numbers of nodes

    def _nodes(self, step: int) -> list[tuple[Operation, ProfileNode]]:
        trained = {v.op.name: v for v in self._graph.get_collection(
            GraphKeys.TRAINABLE_VARIABLES)}
        nodes = []
        for op in self._graph.get_operations():
            node = ProfileNode(op.name, (op.type, *([op.device] if op.device else [])))
            node.float_ops, node.definition_count = float_operations(op), 1
            if op.name in trained:
                dims = trained[op.name].get_shape()
                node.types.add(TRAINABLE_VARIABLES)
                node.shapes = [tuple(dims.as_list())]
                node.parameters = dims.num_elements() or 0
            nodes.append((op, node))
        self._measure({op.name: node for op, node in nodes}, step)
        return nodes

    def _measure(self, nodes: dict[str, ProfileNode], step: int) -> None:
        chosen = list(self._steps.values()) if step < 0 else [
            m for n, m in self._steps.items() if n == step]
        for metadata in chosen:
            for device in metadata.step_stats.dev_stats:
                if STREAM_ROW in device.device:  # its ops have a row of their own
                    continue
                gpu = "gpu" in device.device.lower()
                for stats in device.node_stats:
                    node = nodes.get(stats.node_name.split(":")[0])
                    if node is not None:
                        _add_times(node, stats, gpu)
        for node in nodes.values():
            for number in ("exec_micros", "accelerator_exec_micros", "cpu_exec_micros",
                           "requested_bytes", "run_count"):
                setattr(node, number, getattr(node, number) // max(len(chosen), 1))


def _add_times(node: Any, stats: Any, gpu: bool) -> None:
    micros = stats.op_end_rel_micros - stats.op_start_rel_micros
    node.exec_micros += micros
    node.accelerator_exec_micros += micros if gpu else 0
    node.cpu_exec_micros += 0 if gpu else micros
    node.run_count += 1
    for output in stats.output:
        node.requested_bytes += (
            output.tensor_description.allocation_description.requested_bytes)


# ---------------------------------------------------------------- views


def _by_scope(nodes: list) -> ProfileNode:
    """A tree of the parts of names; an operation may have others below it."""
    root = ProfileNode(_ROOT)
    made = {"": root}
    own = {op.name: node for op, node in nodes}

    def at(name: str) -> ProfileNode:
        if name not in made:
            made[name] = own.get(name) or ProfileNode(name, ("_scope",))
            at(name.rpartition("/")[0]).children.append(made[name])
        return made[name]

    for op, _ in nodes:
        at(op.name)
    return root


def _by_type(nodes: list) -> ProfileNode:
    return _grouped((op.type, node) for op, node in nodes)


def _by_line(nodes: list) -> ProfileNode:
    def line(op: Operation) -> str:
        site = op.creation_site
        return "?" if site is None else f"{site[0]}:{site[1]}:{site[2]}"

    return _grouped((line(op), node) for op, node in nodes)


def _grouped(pairs: Iterable[tuple[str, ProfileNode]]) -> ProfileNode:
    root = ProfileNode(_ROOT)
    groups: dict[str, ProfileNode] = {}
    for name, node in pairs:
        if name not in groups:
            groups[name] = ProfileNode(name, {name, *node.types})
            root.children.append(groups[name])
        groups[name].types |= node.types
        groups[name].add(node)
    return root


def _write(text: str, output: str) -> None:
    kind, _, rest = output.partition(":")
    if kind == "none":
        return
    if kind == "file" and rest.startswith("outfile="):
        with open(rest.removeprefix("outfile="), "w") as file:
            file.write(text)
    elif kind == "stdout":
        print(text)
    else:
        raise ValueError(f"profiler output must be stdout, none or file:outfile=PATH, got "
                         f"{output!r}")


# ---------------------------------------------------------------- advice


def advise(graph: Graph | None = None, run_meta: Any = None, options: dict | None = None) -> Any:
    """Print and return what takes most of the time of a traced step.

    Returns an object whose ``checkers`` has, by name, objects with ``reports``, lines of text.
    `options`, a dict from the names of checkers, says which ones run; all if None. ``ValueError``
    without `run_meta`.
    """
    if run_meta is None:
        raise ValueError("advise needs the RunMetadata of a traced step")
    profiler = Profiler(graph)
    profiler.add_step(0, run_meta)
    return _advice(profiler._nodes(-1), options)


def _advice(nodes: list, options: dict | None = None) -> Any:
    checks = {"ExpensiveOperationChecker": _expensive, "OperationChecker": _layouts,
              "AcceleratorUtilizationChecker": _utilization}
    found = {name: SimpleNamespace(reports=check(nodes)) for name, check in checks.items()
             if not options or name in options}
    for name, checker in found.items():
        print(f"\n{name}:")
        for report in checker.reports:
            print(report)
    return SimpleNamespace(checkers=found)


def _expensive(nodes: list) -> list[str]:
    ordered = sorted((n for _, n in nodes), key=lambda n: -n.exec_micros)[:3]
    whole = sum(n.exec_micros for _, n in nodes) or 1
    return [f"top {i} operation: {n.name}, {'|'.join(sorted(n.types))}, "
            f"{amount(n.exec_micros, 'micros')} ({100.0 * n.exec_micros / whole:.2f}%)"
            for i, n in enumerate(ordered, 1) if n.exec_micros]


def _layouts(nodes: list) -> list[str]:
    return [f"{n.name}: channels come first, which is slower on a CPU" for op, n in nodes
            if n.exec_micros and op.attr("data_format") in (b"NCHW", "NCHW")
            and not n.accelerator_exec_micros][:5]


def _utilization(nodes: list) -> list[str]:
    used = sum(n.accelerator_exec_micros for _, n in nodes)
    whole = sum(n.exec_micros for _, n in nodes)
    return [f"accelerators compute {100.0 * used / whole:.0f}% of the time"] if used else []
