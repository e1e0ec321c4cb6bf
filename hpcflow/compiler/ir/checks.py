"""Checks of what must hold between passes, and of what kernels promise (HPCFLOW_CHECK_STAGES=1).

A broken pass is found where it breaks, a kernel that is not what it is registered as when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.compiler.ir.step_graph import BACK_EDGE_TYPES, Node, StepGraph
from hpcflow.errors import InternalError
from hpcflow.graph.shape_inference import show
from hpcflow.kernels.registry import STEP, SYNC, Kernel

if TYPE_CHECKING:
    from hpcflow.compiler.emit.items import Item
    from hpcflow.runtime.executor.device import Device


def check(graph: StepGraph, stage: str) -> None:
    """Raise ``InternalError`` naming `stage` when the step's graph is not well formed."""
    position = {n: i for i, n in enumerate(graph.nodes)}
    for node in graph.nodes:
        for source, index in node.inputs:
            _check_source(source, node, position, stage)
            if index >= len(source.dtypes):
                raise _broken(f"After {stage}: {node.name} reads output {index} of {source.name}, "
                              f"which has {len(source.dtypes)}")
        for source in node.controls:
            _check_source(source, node, position, stage)
        if stage in ("place", "reads", "loops", "regions") and "/device:" not in node.device:
            raise _broken(f"After {stage}: {node.name} has no device")


def _check_source(source: Node, node: Node, position: dict[Node, int], stage: str) -> None:
    if source not in position:
        raise _broken(f"After {stage}: {node} depends on {source}, which is not part of the step")
    if position[source] >= position[node] and source.type not in BACK_EDGE_TYPES:
        raise _broken(f"After {stage}: {node} comes before {source}")


def check_items(items: list[Any]) -> None:
    """Raise ``InternalError`` when items wait for each other in a circle (of no loop)."""
    waits = [0] * len(items)
    readers = [_readers(item) for item in items]
    for found in readers:
        for index in found:
            waits[index] += 1
    ready = [i for i, count in enumerate(waits) if not count]
    while ready:
        for index in readers[ready.pop()]:
            waits[index] -= 1
            if not waits[index]:
                ready.append(index)
    stuck = [items[i] for i, count in enumerate(waits) if count]
    if stuck:
        raise _broken(f"Items wait for each other: {stuck[:5]}")


def _readers(item: Item) -> set[int]:
    if item.nodes[0].type in BACK_EDGE_TYPES:
        return set()
    return {*(t[3] for t in item.targets), *(t[1] for t in item.control_targets),
            *(m[2].index for m in item.merges), *(m.index for m in item.control_merges)}


def _broken(message: str) -> InternalError:
    return InternalError(None, None, message)


# ---------------------------------------------------------------- kernels


def watched(function: Callable, node: Node, kernel: Kernel, device: Device) -> Callable:
    """`function`, with a check at every call of what its registration and the graph say."""
    if kernel.mode not in (SYNC, STEP):
        return function
    if device.has_own_memory:
        return _placed(function, node, kernel)

    def run(*arguments: Any, **keywords: Any) -> Any:
        given = [keywords.get("out")]  # what the kernel may write into
        if keywords.get("own") and kernel.takes_over is not None:
            given.append(arguments[kernel.takes_over])
        arrays = [a for a in arguments if type(a) is np.ndarray and all(a is not g for g in given)]
        before = [a.copy() for a in arrays]
        result = function(*arguments, **keywords)
        for array, copy in zip(arrays, before, strict=True):
            if not _same(array, copy):
                raise _promise(node, "wrote into an input")
        outputs = _outputs(result, node)
        for i, value in enumerate(outputs):
            _check_value(value, i, node)
        if kernel.fresh:
            _check_fresh(outputs, arrays, node)
        return result

    return run


def _placed(function: Callable, node: Node, kernel: Kernel) -> Callable:
    """`function`, with a check that it leaves in host memory what it is registered to leave there,
    and nothing else: what is not said to be there is not copied to the device for a reader."""
    told = {i for i, d in enumerate(node.dtypes) if i in kernel.host_outputs
            or d._is_ref_dtype or d.name in ("string", "resource", "variant")}

    def run(*arguments: Any, **keywords: Any) -> Any:
        result = function(*arguments, **keywords)
        for i, value in enumerate(_outputs(result, node)):
            if i not in told and isinstance(value, (np.ndarray, np.generic)):
                raise _promise(node, f"left output {i} in host memory, and is not registered to")
        return result

    return run


def _outputs(result: np.ndarray | Sequence[np.ndarray] | None, node: Node) -> tuple:
    count = len(node.dtypes)
    if count == 0:
        if result is not None:
            raise _promise(node, f"returned {result!r}, but has no outputs")
        return ()
    if count == 1:
        return (result,)
    if not isinstance(result, (tuple, list)) or len(result) != count:
        raise _promise(node, f"did not return {count} outputs")
    return tuple(result)


def _check_value(value: np.ndarray, index: int, node: Node) -> None:
    dtype, dims = node.dtypes[index], node.dims[index]
    if dtype._is_ref_dtype or dtype.name in ("resource", "variant"):
        return
    if dtype.name == "string":
        good = isinstance(value, bytes) or getattr(value, "dtype", None) == np.object_
    else:
        good = isinstance(value, (np.ndarray, np.generic)) and value.dtype == dtype.np
    if not good:
        kind = getattr(value, "dtype", type(value).__name__)
        raise _promise(node, f"returned {kind} for output {index}, which is {dtype.name}")
    shape = getattr(value, "shape", ())
    if dims is not None and (len(dims) != len(shape) or any(
            d is not None and d != s for d, s in zip(dims, shape, strict=True))):
        raise _promise(node, f"returned shape {list(shape)} for output {index}, of which the graph "
                       f"says {show(dims)}")


def _check_fresh(outputs: tuple, inputs: list[np.ndarray], node: Node) -> None:
    arrays = [o for o in outputs if type(o) is np.ndarray and o.size]
    for i, output in enumerate(arrays):
        if any(np.shares_memory(output, other) for other in inputs + arrays[:i]):
            raise _promise(node, "is registered as fresh, but an output shares memory")
        if not output.flags.writeable:
            raise _promise(node, "is registered as fresh, but an output is read-only")


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind == "O":
        return a.tolist() == b.tolist()
    return a.tobytes() == b.tobytes()


def _promise(node: Node, what: str) -> InternalError:
    return _broken(f"The kernel of {node.type} {what}")
