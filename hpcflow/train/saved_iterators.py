"""Iterators over data sets as what a Saver saves and restores."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.graph import colocate_with, control_dependencies
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.train.saveable import SaveableObject, SaveSpec


class IteratorSaveable(SaveableObject):
    """A saveable position of an iterator in its data set.

    A restored iterator goes over its data set again, from the beginning, and leaves out what was
    handed out before: elements, and errors. What data sets draw without a seed is drawn the same
    again, but not what functions of the user draw without a seed.
    """

    is_position = True

    def __init__(self, iterator: Any) -> None:
        resource = iterator._resource
        self._iterator = iterator
        with colocate_with(resource.op):
            state = raw_ops._IteratorState(resource)
        super().__init__(resource.op, [SaveSpec(state, "", f"{resource.op.name}-state")],
                         f"{resource.op.name}-state")

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list | None) -> Operation:
        """Return the operation that goes on where the iterator was; see the class."""
        resource, begun = self._iterator._resource, self._iterator._initializer
        with colocate_with(resource.op):
            first = [] if begun is None else [
                raw_ops.MakeIterator(dataset=begun.inputs[0], iterator=resource)]
            with control_dependencies(first):
                return raw_ops._SetIteratorState(resource, restored_tensors[0])


def make_saveable_from_iterator(iterator: Any,
                                external_state_policy: object = None) -> IteratorSaveable:
    """Return what a Saver can save and restore of an iterator: add it to the collection
    ``SAVEABLE_OBJECTS`` or give it to the Saver. `external_state_policy` has no effect."""
    return IteratorSaveable(iterator)
