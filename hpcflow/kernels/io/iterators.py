"""Kernels of iterators over data sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.shared import shared
from hpcflow.kernels.common.text import as_bytes, as_text
from hpcflow.kernels.flow.optionals import Optional
from hpcflow.kernels.io.dataset_files import known_compression
from hpcflow.kernels.io.dataset_functions import Caller
from hpcflow.kernels.io.datasets import components
from hpcflow.kernels.io.queues import waiting
from hpcflow.kernels.registry import ASYNC, RESOURCE, KernelNode, invalid, kernel
from hpcflow.resources.datasets import workers
from hpcflow.resources.datasets.base import Dataset, Run, check_types
from hpcflow.resources.datasets.functions import reduced, single
from hpcflow.resources.iterators import IteratorResource, State
from hpcflow.storage.tfrecords import write_records

_KIND = "iterator"


@kernel("Iterator", "IteratorV2", device="CPU", mode=RESOURCE)
def _iterator(node: KernelNode) -> IteratorResource:
    return shared(node, _KIND, lambda name: IteratorResource(name, *components(node)))


@kernel("AnonymousIterator", "AnonymousIteratorV2", "AnonymousIteratorV3", device="CPU")
def _anonymous(node: KernelNode) -> Callable:
    about, deletable = components(node), len(node.output_dtypes) > 1

    def make() -> Any:
        made = IteratorResource(node.name, *about)
        return (made, made) if deletable else made

    return make


@kernel("DeleteIterator", device="CPU")
def _delete(node: KernelNode) -> Callable:
    return lambda iterator, deleter: iterator.clear()


@kernel("OneShotIterator", device="CPU", mode=RESOURCE)
def _one_shot(node: KernelNode) -> IteratorResource:
    def first(run: Run) -> Dataset:
        factory = node.context.function(node.attr("dataset_factory"), [], [])
        (dataset,) = run.function(factory)()
        return dataset

    return shared(node, _KIND, lambda name: IteratorResource(name, *components(node), first))


@kernel("MakeIterator", device="CPU")
def _make(node: KernelNode) -> Callable:
    return lambda dataset, iterator: iterator.begin(dataset)


def _next(result: Callable[[Any], Any]) -> Callable:
    return waiting(lambda done, iterator: (
        iterator, iterator.next(lambda outcome: done(result(outcome)))))


@kernel("IteratorGetNext", "IteratorGetNextSync", device="CPU", mode=ASYNC)
def _get_next(node: KernelNode) -> Callable:
    return _next(lambda outcome: outcome)


@kernel("IteratorGetNextAsOptional", device="CPU", mode=ASYNC)
def _get_next_as_optional(node: KernelNode) -> Callable:
    from hpcflow.errors import OutOfRangeError

    def result(outcome: Any) -> Any:
        if isinstance(outcome, OutOfRangeError):
            return (Optional(None),)
        return outcome if isinstance(outcome, BaseException) else (Optional(outcome),)

    return _next(result)


# ---------------------------------------------------------------- by name


@kernel("IteratorToStringHandle", device="CPU")
def _to_string(node: KernelNode) -> Callable:
    return lambda iterator: b"/".join(iterator.strings().tolist())


@kernel("IteratorFromStringHandle", "IteratorFromStringHandleV2", device="CPU")
def _from_string(node: KernelNode) -> Callable:
    types = node.attr("output_types")
    shapes = [s._dims for s in node.attr("output_shapes")] or [None] * len(types)

    def find(text: Any) -> IteratorResource:
        container, _, name = as_bytes(text).decode().partition("/")
        found = node.resources.lookup(container, _KIND, name)
        if found is None:
            raise invalid(f"Could not find an iterator by the handle {as_bytes(text)!r}: it is of "
                          "another task, or its container was cleared")
        if types:
            check_types(types, shapes, Dataset(found.types, found.shapes))
        return found

    return find


# ---------------------------------------------------------------- how far a pass has come


@kernel("SerializeIterator", device="CPU")
def _serialize(node: KernelNode) -> Callable:
    return lambda iterator: iterator.state()


@kernel("DeserializeIterator", device="CPU")
def _deserialize(node: KernelNode) -> Callable:
    def restore(iterator: IteratorResource, state: Any) -> None:
        if not isinstance(state, State):
            raise invalid("serialized is not the state of an iterator")
        iterator.resume(state)

    return restore


@kernel("_IteratorState", device="CPU")
def _state(node: KernelNode) -> Callable:
    return lambda iterator: b"%d %d" % iterator.state()


@kernel("_SetIteratorState", device="CPU")
def _set_state(node: KernelNode) -> Callable:
    def restore(iterator: IteratorResource, text: Any) -> None:
        try:
            count, entropy = map(int, as_bytes(text).split())
        except ValueError:
            raise invalid(f"{as_bytes(text)!r} is not the state of an iterator") from None
        iterator.resume(State(count, entropy))

    return restore


# ---------------------------------------------------------------- at once


def _in_background(work: Callable[..., tuple]) -> Callable:
    """An asynchronous kernel that runs ``work(run, *inputs)``, which may wait, off the step."""

    def begin(step: Any, done: Callable[[Any], None], *inputs: Any) -> None:
        run = Run(workers.start)
        forget = step.when_cancelled(run.cancel)

        def go() -> None:
            try:
                outcome: Any = work(run, *inputs)
            except BaseException as e:  # noqa: BLE001 - the step reports it
                outcome = e
            forget()
            run.cancel()
            done(outcome)

        workers.start(go)

    return begin


@kernel("ReduceDataset", device="CPU", mode=ASYNC)
def _reduce(node: KernelNode) -> Callable:
    types = node.attr("Tstate")
    count = len(types)
    shapes = [s._dims for s in node.attr("output_shapes")]
    caller = Caller(node, "f", 1 + count)

    def work(run: Run, dataset: Dataset, *inputs: Any) -> tuple:
        function = caller.make([*types, *dataset.types], [*shapes, *dataset.shapes],
                               (dataset, *inputs), types)
        return reduced(dataset, function, inputs[:count], run)

    return _in_background(work)


@kernel("DatasetToTFRecord", "ExperimentalDatasetToTFRecord", device="CPU", mode=ASYNC)
def _to_records(node: KernelNode) -> Callable:
    def work(run: Run, dataset: Dataset, filename: Any, compression: Any) -> tuple:
        write_records(as_text(filename), (record for record, in dataset.iterate(run)),
                      known_compression(compression))
        return ()

    return _in_background(work)


@kernel("DatasetCardinality", "ExperimentalDatasetCardinality", device="CPU", fresh=True)
def _cardinality(node: KernelNode) -> Callable:
    return lambda dataset: np.int64(dataset.cardinality())


@kernel("DatasetToSingleElement", "ExperimentalDatasetToSingleElement", device="CPU", mode=ASYNC)
def _single(node: KernelNode) -> Callable:
    return _in_background(lambda run, dataset: single(dataset, run))
