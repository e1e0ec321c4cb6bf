"""Iterators over data sets as what a Saver saves and restores, and a hook that does so with an
estimator."""

from __future__ import annotations

from typing import Any

from hpcflow.framework.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from hpcflow.graph.graph import colocate_with, control_dependencies, get_default_graph
from hpcflow.graph.likes import SessionLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.train.checkpoint_state import latest_checkpoint
from hpcflow.train.saveable import SaveableObject, SaveSpec
from hpcflow.train.saver import Saver
from hpcflow.train.saving_hooks import CheckpointSaverHook

_ITERATORS = ("Iterator", "IteratorV2", "OneShotIterator")


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


class CheckpointInputPipelineHook(SessionRunHook):
    """Saves the positions of all iterators of a graph when an estimator saves its variables.

    The checkpoints, ``input.ckpt``, are in the estimator's directory; with several workers each has
    its own. Training that begins again goes on with the element behind the last one that was saved.

    Args:
        estimator: its directory, and when to save.
        external_state_policy: has no effect.

    Raises ``ValueError`` in ``begin`` for a graph without iterators.
    """

    def __init__(self, estimator: Any, external_state_policy: object = None) -> None:
        config, name = estimator.config, "input"
        if config.num_worker_replicas > 1:
            name += f"_{config.task_type}_{config.task_id}"
        self._dir, self._state_name = estimator.model_dir, f"checkpoint_{name}"
        self._options = {"save_secs": config.save_checkpoints_secs,
                         "save_steps": config.save_checkpoints_steps,
                         "checkpoint_basename": f"{name}.ckpt"}
        self._is_first = True

    def begin(self) -> None:
        """Find the iterators."""
        found = [_Found(op) for op in get_default_graph().get_operations() if op.type in _ITERATORS]
        if not found:
            raise ValueError("CheckpointInputPipelineHook: there are no iterators in the graph")
        self._saver = _IteratorSaver([IteratorSaveable(i) for i in found], self._state_name)
        self._hook = CheckpointSaverHook(self._dir, saver=self._saver, **self._options)
        self._hook.begin()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Before the first step, when iterators have been initialized: restore, or save."""
        if self._is_first:
            self._is_first = False
            session, path = run_context.session, latest_checkpoint(self._dir, self._state_name)
            if path is None:
                self._hook.save_at_once(session)
            else:
                self._saver.restore(session, path)
        return self._hook.before_run(run_context)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Save if it is time."""
        self._hook.after_run(run_context, run_values)

    def end(self, session: SessionLike) -> None:
        """Save, unless the last step is saved already."""
        self._hook.end(session)


class _Found:
    """An iterator of a graph, by its operation."""

    def __init__(self, op: Operation) -> None:
        self._resource: Tensor = op.outputs[0]
        begun = [c for c in self._resource.consumers() if c.type == "MakeIterator"]
        self._initializer = begun[0] if begun else None


class _IteratorSaver(Saver):
    """A Saver without MetaGraphs, whose latest checkpoint another file tells."""

    def __init__(self, saveables: list[IteratorSaveable], state_name: str) -> None:
        super().__init__(saveables)
        self._state_name = state_name

    def save(self, sess: Any, save_path: Any, global_step: Any = None,
             latest_filename: str | None = None, meta_graph_suffix: str = "meta",
             write_meta_graph: bool = True, *args: Any, **keywords: Any) -> str | None:
        """As of a Saver."""
        return super().save(sess, save_path, global_step, latest_filename or self._state_name,
                            meta_graph_suffix, False, *args, **keywords)
