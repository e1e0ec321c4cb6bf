"""Kernels of data sets with functions of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.dtypes import DType
from hpcflow.kernels.io.datasets import components
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.resources.datasets import batching, functions, parallel, sources
from hpcflow.resources.datasets.base import Dataset, Dims, Function


class Captured:
    """A function whose last inputs are the same in every call.

    Args:
        function: with all inputs.
        values: of the last inputs.
    """

    def __init__(self, function: Any, values: tuple) -> None:
        self._function, self._values = function, values
        self.waits, self.has_state = function.waits, function.has_state

    def __call__(self, *inputs: Any) -> tuple:
        """The outputs."""
        return self._function(*inputs, *self._values)

    def fresh(self) -> Captured:
        """The same function with a state of its own."""
        return Captured(self._function.fresh(), self._values)

    def cancel(self) -> None:
        """Stop the calls that are under way."""
        self._function.cancel()


class Caller:
    """Makes the function that an attribute of a node names.

    Args:
        attr: the attribute.
        inputs: the position of the first captured input of the node, and their number.
        results: the number of the outputs that are not to be those of the elements; all, if None.
    """

    def __init__(self, node: KernelNode, attr: str, first: int, types: str = "Targuments") -> None:
        self._node, self._func = node, node.attr(attr)
        count = len(node.attr(types))
        self._taken = slice(first, first + count)
        self._types = node.attr(types)
        self._dims = node.input_dims[first : first + count]

    def make(self, types: list[DType], dims: list[Dims], inputs: tuple,
             results: list[DType] | None = None) -> Function:
        """The function for inputs of such types and dims, then what is captured of the node's
        `inputs`. Raises ``InvalidArgumentError`` unless it returns `results`."""
        compiled = self._node.context.function(self._func, [*types, *self._types],
                                               [*dims, *self._dims])
        if results is not None and [t.base_dtype for t in compiled.dtypes] != list(results):
            raise invalid(f"the function returns ({_names(compiled.dtypes)}), but the elements are "
                          f"({_names(results)})")
        values = inputs[self._taken]
        return Captured(compiled, values) if values else compiled


def _names(types: list[DType]) -> str:
    return ", ".join(t.name for t in types)


def _over(node: KernelNode, attr: str, make: Callable[..., Dataset],
          results: list[DType] | None) -> Callable:
    """The kernel of a data set with one function of its elements, the first input."""
    caller = Caller(node, attr, 1)
    after = 1 + len(node.attr("Targuments"))

    def build(*inputs: Any) -> Dataset:
        source = inputs[0]
        function = caller.make(source.types, source.shapes, inputs, results)
        return make(source, function, *inputs[after:])

    return build


@kernel("MapDataset", "ExperimentalMapDataset", device="CPU")
def _map(node: KernelNode) -> Callable:
    about = components(node)
    return _over(node, "f", lambda source, function: functions.MapDataset(
        source, *about, function), about[0])


@kernel("ParallelMapDataset", "ParallelMapDatasetV2", device="CPU")
def _parallel_map(node: KernelNode) -> Callable:
    about = components(node)
    return _over(node, "f", lambda source, function, count: parallel.ParallelMapDataset(
        source, *about, function, int(count)), about[0])


@kernel("FilterDataset", "ParallelFilterDataset", device="CPU")
def _filter(node: KernelNode) -> Callable:
    about = components(node)
    return _over(node, "predicate", lambda source, function, *calls: functions.FilterDataset(
        source, *about, function), None)


@kernel("TakeWhileDataset", "ExperimentalTakeWhileDataset", device="CPU")
def _take_while(node: KernelNode) -> Callable:
    about = components(node)
    return _over(node, "predicate", lambda source, function: functions.TakeWhileDataset(
        source, *about, function), None)


@kernel("FlatMapDataset", device="CPU")
def _flat_map(node: KernelNode) -> Callable:
    about = components(node)
    return _over(node, "f", lambda source, function: functions.FlatMapDataset(
        source, *about, function), None)


@kernel("InterleaveDataset", device="CPU")
def _interleave(node: KernelNode) -> Callable:
    about = components(node)
    return _over(node, "f", lambda source, function, cycle, block: functions.InterleaveDataset(
        source, *about, function, int(cycle), int(block)), None)


@kernel("ParallelInterleaveDatasetV2", "ParallelInterleaveDatasetV3",
        "ParallelInterleaveDatasetV4", device="CPU")
def _parallel_interleave_v2(node: KernelNode) -> Callable:
    about = components(node)

    def make(source: Dataset, function: Function, cycle: Any, block: Any,
             *rest: Any) -> Dataset:
        calls = rest[-1]  # after sizes of buffers, in the newest form
        if calls < 1 and calls != parallel.AUTOTUNE:
            raise invalid("num_parallel_calls must be greater than zero.")
        return parallel.ParallelInterleaveDataset(source, *about, function, int(cycle),
                                                  int(block), 2 * int(block))

    return _over(node, "f", make, None)


@kernel("ParallelInterleaveDataset", "ExperimentalParallelInterleaveDataset",
        "LegacyParallelInterleaveDatasetV2", device="CPU")
def _parallel_interleave(node: KernelNode) -> Callable:
    about = components(node)

    def make(source: Dataset, function: Function, cycle: Any, block: Any, *rest: Any) -> Dataset:
        buffered, _ahead = rest[-2:]  # after "sloppy", in the older form
        return parallel.ParallelInterleaveDataset(source, *about, function, int(cycle),
                                                  int(block), max(1, int(buffered)))

    return _over(node, "f", make, None)


def _limit(node: KernelNode) -> functions.Limit:
    """What becomes of a function that is out of range."""
    return functions.refusing if node.attr("preserve_cardinality") else functions.ending


@kernel("MapAndBatchDataset", "MapAndBatchDatasetV2", "ExperimentalMapAndBatchDataset",
        device="CPU")
def _map_and_batch(node: KernelNode) -> Callable:
    types, shapes = components(node)
    inner = [None if s is None else s[1:] for s in shapes]
    limit = _limit(node)

    def make(source: Dataset, function: Function, size: Any, calls: Any, drop: Any) -> Dataset:
        mapped = parallel.ParallelMapDataset(source, types, inner, function, int(calls), limit)
        return batching.BatchDataset(mapped, types, shapes, int(size), bool(drop), whole=True)

    return _over(node, "f", make, types)


@kernel("ScanDataset", "ExperimentalScanDataset", device="CPU")
def _scan(node: KernelNode) -> Callable:
    about = components(node)
    state_types = node.attr("Tstate")
    count = len(state_types)
    caller, limit = Caller(node, "f", 1 + count), _limit(node)

    def build(*inputs: Any) -> Dataset:
        source = inputs[0]
        function = caller.make([*state_types, *source.types], [*[None] * count, *source.shapes],
                               inputs, [*state_types, *about[0]])
        return functions.ScanDataset(source, *about, function, inputs[1 : 1 + count], limit)

    return build


def _callers(node: KernelNode, names: tuple[str, ...]) -> list[Caller]:
    """The callers of the functions of these names; their captured inputs follow the first input."""
    callers, first = [], 1
    for name in names:
        types = f"T{name}_func_other_arguments"
        callers.append(Caller(node, f"{name}_func", first, types))
        first += len(node.attr(types))
    return callers


@kernel("GroupByWindowDataset", "ExperimentalGroupByWindowDataset", device="CPU")
def _group_by_window(node: KernelNode) -> Callable:
    from hpcflow.dtypes import int64, variant

    about = components(node)
    callers = _callers(node, ("key", "reduce", "window_size"))

    def build(*inputs: Any) -> Dataset:
        source = inputs[0]
        key = callers[0].make(source.types, source.shapes, inputs, [int64])
        reduce = callers[1].make([int64, variant], [(), ()], inputs)
        size = callers[2].make([int64], [()], inputs, [int64])
        return functions.GroupByWindowDataset(source, *about, key, size, reduce)

    return build


@kernel("GroupByReducerDataset", "ExperimentalGroupByReducerDataset", device="CPU")
def _group_by_reducer(node: KernelNode) -> Callable:
    from hpcflow.dtypes import int64

    about = components(node)
    callers = _callers(node, ("key", "init", "reduce", "finalize"))

    def build(*inputs: Any) -> Dataset:
        source = inputs[0]
        key = callers[0].make(source.types, source.shapes, inputs, [int64])
        begin = callers[1].make([int64], [()], inputs)
        made: Any = getattr(begin, "_function", begin)
        state = [t.base_dtype for t in made.dtypes]
        anything: list[Dims] = [None] * len(state)
        reduce = callers[2].make([*state, *source.types], [*anything, *source.shapes], inputs,
                                 state)
        finish = callers[3].make(state, anything, inputs, about[0])
        return functions.GroupByReducerDataset(source, *about, key, begin, reduce, finish)

    return build


@kernel("GeneratorDataset", device="CPU")
def _generator(node: KernelNode) -> Callable:
    about = components(node)
    callers, first = [], 0
    for name in ("init", "next", "finalize"):
        types = f"T{name}_func_args"
        callers.append(Caller(node, f"{name}_func", first, types))
        first += len(node.attr(types))

    def build(*inputs: Any) -> Dataset:
        begin = callers[0].make([], [], inputs)
        made: Any = getattr(begin, "_function", begin)
        following = callers[1].make(made.dtypes, made.dims, inputs, about[0])
        end = callers[2].make(made.dtypes, made.dims, inputs)
        return sources.GeneratorDataset(*about, begin, following, end)

    return build
