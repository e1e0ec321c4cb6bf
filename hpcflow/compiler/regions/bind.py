"""bind: a node and the device it is on give a kernel function with everything fixed known.

On a device with memory of its own every value is followed at compile time: a kernel's inputs are
moved only where they lie on the other side.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import config
from hpcflow.base.formats.array_protos import is_uniform
from hpcflow.compiler.distribute.output_aliasing import made_in_place
from hpcflow.compiler.ir.checks import watched
from hpcflow.compiler.ir.explain import explain, node_error
from hpcflow.compiler.ir.sizes import known_bytes
from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    ENTER_TYPES,
    FETCH,
    MERGE_TYPES,
    RECV,
    SWITCH_TYPES,
    Node,
    Port,
    ref_inputs,
)
from hpcflow.compiler.regions.host_values import (
    DEVICE,
    HOST,
    host_kernel,
    is_count,
    keeps_its_side,
    named,
)
from hpcflow.compiler.regions.lines import Bound
from hpcflow.compiler.regions.lower import ALIASES, NOTHING
from hpcflow.errors import UnimplementedError
from hpcflow.host.free_memory import require
from hpcflow.host.tuning import host as tuning
from hpcflow.kernels.input_shapes import checked
from hpcflow.kernels.registry import (
    RESOURCE,
    SYNC,
    Kernel,
    KernelNode,
    describe_kernels,
    find_kernel,
)
from hpcflow.loops import strided_copy

if TYPE_CHECKING:
    from hpcflow.runtime.executor.device import Device

_HOST_TYPES = frozenset({"string", "resource", "variant"})


class Binder:
    """Makes the kernels of one task's nodes, which come in an order with producers first.

    `devices` maps canonical names to device objects; `context` is what kernels see of the session
    and the task (``op_state``, ...). ``known`` collects the values that are the same in every
    step: constants (in host memory) and the states of variables. `places` are the nodes whose
    values a reduction over ranks has a place for, `predicates` the values that the executor reads,
    `fetched` the nodes that bring values to the client alone.
    """

    def __init__(self, devices: dict[str, Any], context: Any,
                 places: dict[Node, tuple[str, int]] | None = None,
                 predicates: frozenset[Port] = frozenset(),
                 fetched: frozenset[Node] = frozenset()) -> None:
        self.devices = devices
        self.context = context
        self._places = places or {}
        self._predicates = predicates
        self._fetched = fetched
        self._coming: set[Node] = set()  # of these, what gives a value when the step ends
        # Where what goes round a loop is at first: it is where most of it stays.
        self._first: dict[Port, str] = {}
        self.known: dict[tuple[Node, int], Any] = {}
        self._where: dict[tuple[Node, int], str] = {}  # on devices with own memory
        self._constant_moves: dict[Any, Callable] = {}

    def bind(self, node: Node) -> Bound:
        """Return `node` with its function, or with the constant that it is."""
        device = self.devices[node.device]
        bound = self._bind(node, device)
        return self._read_by_executor(bound, device) if device.has_own_memory else bound

    def _bind(self, node: Node, device: Device) -> Bound:
        if node.is_const:
            value = _whole(node)
            return self._constant(node, value if value.ndim else value[()])
        if node.type in NOTHING:
            return Bound(node, None, None)
        if node.type == FETCH:
            return Bound(node, None, None if node.inputs[0][0] in self._coming else _fetch)
        if node.type == RECV:
            return self._receive(node, device)
        if node.type in ALIASES:
            self._pass_through(node, device)
            return Bound(node, None, None)
        return self._compute(node, device)

    def _read_by_executor(self, bound: Bound, device: Any) -> Bound:
        """Return `bound`, its value moved to the host, once for all readers, if it is a
        predicate."""
        node, port = bound.node, (bound.node, 0)
        if port not in self._predicates or bound.is_constant or len(node.dtypes) != 1 or (
                node.dtypes[0]._is_ref_dtype or self._where.get(port) == HOST):
            return bound
        self._where[port] = HOST
        compute, to_host = bound.function, device.to_host
        if compute is None:  # an alias
            return Bound(node, None, to_host)

        def run(*inputs: Any, **options: Any) -> Any:
            return to_host(compute(*inputs, **options))

        return Bound(node, bound.kernel, run, moves=bound.moves, fresh=bound.fresh)

    def follow(self, node: Node) -> None:
        """Note on which side (host or device) the outputs are of a node that the executor itself
        runs."""
        device = self.devices[node.device]
        if node.type == RECV:  # an edge from another task
            self._place(node, 0, device, DEVICE)
        elif device.has_own_memory and node.inputs:
            self._pass_through(node, device)

    def to_host(self, node: Node, index: int) -> Callable | None:
        """The function that brings input `index` of `node` to the host, if it may be elsewhere."""
        device = self.devices[node.device]
        if not device.has_own_memory or self._where.get(node.inputs[index]) == HOST:
            return None
        return device.to_host

    # ------------------------------------------------------------ kinds of nodes

    def _constant(self, node: Node, value: Any, kernel: Kernel | None = None) -> Bound:
        self.known[(node, 0)] = value
        self._where[(node, 0)] = HOST
        return Bound(node, kernel, None, value, True)

    def _receive(self, node: Node, device: Device) -> Bound:
        source = self.devices[node.inputs[0][0].device]
        if device.has_own_memory and not source.has_own_memory and is_count(node.dtypes[0]):
            self._place(node, 0, device, HOST)
            return Bound(node, None, None)
        self._place(node, 0, device, DEVICE)
        if node in self._fetched and source.fetches_later and not device.has_own_memory:
            self._coming.add(node)
            return Bound(node, None, _coming_from(source), fresh=True)
        is_copy = self._side_of(*node.inputs[0]) == DEVICE and not device.has_own_memory
        return Bound(node, None, _transfer(source, device), fresh=is_copy)

    def _compute(self, node: Node, device: Device) -> Bound:
        kernel = find_kernel(node.type, device.type, node.attrs)
        constants = [constant_value(p) for p in node.inputs]
        on_host = host_kernel(node, [self._likely_side(*p) for p in node.inputs]) if (
            device.has_own_memory) else None
        kernel = on_host or kernel
        if kernel is None:
            raise node_error(UnimplementedError, f"No kernel for {node.type} on {device.type}: "
                             f"{describe_kernels(node.type)}", node, node.device)
        if device.has_own_memory and config.flags.cuda_graphs:  # variables stay where they are
            kernel = kernel._replace(takes_over=None)
        function = instantiate(node, kernel, device.on_host if on_host else device, self.context,
                               constants)
        if kernel.mode == RESOURCE:
            return self._constant(node, function, kernel)
        for i in range(len(node.dtypes)):
            if not keeps_its_side(node):
                self._place(node, i, device, HOST if i in kernel.host_outputs else DEVICE)
        nbytes = known_bytes(node)  # kernels refuse shapes that have no size themselves
        if kernel.mode == SYNC and kernel.fresh and not device.has_own_memory and (
                tuning.MEMORY_LARGE_BYTES <= nbytes < 1 << 63):
            function = _asking(function, nbytes)
        if node in self._places and not device.has_own_memory:
            function = made_in_place(function, kernel, self.context.place(*self._places[node]))
        return Bound(node, kernel, function, moves=self._moves(node, kernel, device),
                     fresh=kernel.fresh)

    # ------------------------------------------------------------ where values are

    def _place(self, node: Node, index: int, device: Device, side: str) -> None:
        if device.has_own_memory:
            on_host = node.dtypes[index].base_dtype.name in _HOST_TYPES
            self._where[(node, index)] = HOST if on_host else side

    def _pass_through(self, node: Node, device: Device) -> None:
        if not device.has_own_memory:
            return
        sources = node.inputs if node.type in MERGE_TYPES else node.inputs[:1]
        sides = {None if s.type in BACK_EDGE_TYPES else self._side_of(s, i) for s, i in sources}
        side = sides.pop() if len(sides) == 1 else None
        first = self._likely_side(*sources[0])
        if side is None and first is not None:
            self._first[(node, 0)] = first
            if node.type in SWITCH_TYPES:
                self._first[(node, 1)] = first
        for i in range(len(node.dtypes)):
            if side is not None:
                self._where[(node, i)] = side
        if node.type in MERGE_TYPES:
            self._where[(node, 1)] = HOST  # which input came

    def _side_of(self, source: Node, index: int) -> str | None:
        """Return the side, host or device, on which a value is once it is read; None if that may
        differ from step to step."""
        if source.dtypes[index]._is_ref_dtype:
            return HOST if source.dtypes[index].base_dtype.name in _HOST_TYPES else DEVICE
        return self._where.get((source, index))

    def _likely_side(self, source: Node, index: int) -> str | None:
        return self._side_of(source, index) or self._first.get((source, index))

    def _moves(self, node: Node, kernel: Kernel, device: Device) -> tuple:
        if not device.has_own_memory:
            return ()
        refs = ref_inputs(node)
        moves: list[Callable | None] = []
        for i, (source, index) in enumerate(node.inputs):
            want = HOST if i in kernel.host_inputs else DEVICE
            if source.dtypes[index].base_dtype.name in _HOST_TYPES or keeps_its_side(node) or (
                    i < len(refs) and refs[i]) or self._side_of(source, index) == want:
                moves.append(None)
            elif want == HOST:
                moves.append(device.to_host)
            else:
                moves.append(self._constant_move(device) if source.type == "Const"
                             else device.to_device)
        return tuple(moves)

    def _constant_move(self, device: Any) -> Callable:
        """``to_device`` that moves each constant once, whatever the number of its readers."""
        found = self._constant_moves.get(device)
        if found is None:
            moved: dict[int, tuple[Any, Any]] = {}

            def move(value: Any) -> Any:
                known = moved.get(id(value))
                if known is None:
                    known = moved[id(value)] = (value, device.to_device(value))
                return known[1]

            found = self._constant_moves[device] = move
        return found


def constant_value(port: Port) -> Any:
    """The value of an input that is the same whenever it is alive, else None."""
    node, _ = port
    while node.type in _PASSING and (node.type not in ENTER_TYPES or node.attrs.get("is_constant")):
        node, _ = node.inputs[0]
    return _whole(node) if node.type == "Const" else None


def _whole(node: Node) -> np.ndarray:
    """The value of a constant, every element of it in memory: so kernels want it."""
    value = node.attrs["value"]
    if is_uniform(value):
        value = np.ascontiguousarray(value)
        value.flags.writeable = False
        node.attrs = {**node.attrs, "value": value}
    return value


# Ops that pass a constant on; what enters a loop once is a variable's first value only.
_PASSING = SWITCH_TYPES | ENTER_TYPES | {"Identity"}


def instantiate(node: Node, kernel: Kernel, device: Device, context: Any, constants: list) -> Any:
    """Call the kernel's factory for `node`.

    What the factory raises is raised when the node runs, if it ever does.
    """
    kernel_node = KernelNode(
        node.name, node.type, node.attrs, device, [s.dtypes[i].base_dtype for s, i in node.inputs],
        node.dtypes, [s.dims[i] for s, i in node.inputs], node.dims, constants, context, node.op)
    try:
        make = device.entered(kernel.factory)  # which may put constants there
        function = checked(kernel_node, kernel, make(kernel_node))
    except Exception as e:  # noqa: BLE001  (whatever it is, it is about this node)
        error = explain(e, node, [], node.device)
        if kernel.mode == RESOURCE:
            raise error from error.__cause__
        return _raising(error)
    if kernel.mode == RESOURCE:
        return function
    if device.has_own_memory:
        function = named(function, node, kernel, device)
    if config.flags.check_stages and not (device.has_own_memory and keeps_its_side(node)):
        return watched(function, node, kernel, device)
    return function


def _raising(error: BaseException) -> Callable:
    def fail(*_: Any, **__: Any) -> Any:
        raise error.with_traceback(None)

    return fail


def _transfer(source: Device, destination: Device) -> Callable | None:
    """The function that moves a value between two devices of one task; None for none."""
    if source is destination or not (source.has_own_memory or destination.has_own_memory):
        return None
    return lambda value: destination.to_device(source.to_host(value))


def _coming_from(source: Any) -> Callable:
    """What begins to bring a value to the client; one that is on the host is copied at once."""
    begin = source.fetch

    def run(value: Any) -> Any:
        found = begin(value)
        return _fetch(value) if found is value else found

    return run


def _fetch(value: Any) -> Any:
    """The client's own copy of a value: an array, or a NumPy scalar for rank 0."""
    if type(value) is np.ndarray:
        return strided_copy.contiguous(value) if value.ndim else value[()]
    if isinstance(value, (bool, int, float, complex, list, tuple)):
        return _fetch(np.asarray(value))
    return value  # a NumPy scalar, a string, a handle


def _asking(function: Callable, nbytes: int) -> Callable:
    """`function`, which asks before each call if there is memory for its outputs."""

    @functools.wraps(function)
    def run(*arguments: Any, **keywords: Any) -> Any:
        if keywords.get("out") is None:
            require(nbytes)
        return function(*arguments, **keywords)

    return run
