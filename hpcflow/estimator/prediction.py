"""Predictions of estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hpcflow import errors
from hpcflow.estimator.spec import ModeKeys
from hpcflow.graph.graph import Graph, set_random_seed
from hpcflow.graph.likes import TensorLike
from hpcflow.train.monitored_session import MonitoredSession
from hpcflow.train.session_creators import ChiefSessionCreator

if TYPE_CHECKING:
    from hpcflow.estimator.base import Estimator


def predict(estimator: Estimator, input_fn: Callable, keys: TensorLike | None, hooks: list,
            checkpoint: str | None, yields_examples: bool) -> Iterator:
    """See :meth:`Estimator.predict`; without a `checkpoint` variables are initialized.

    Nothing of the graph or session is current while the caller has a prediction.
    """
    config = estimator.config
    graph = Graph()
    with graph.as_default():
        set_random_seed(config.tf_random_seed)
        spec, input_hooks = estimator.build_with(input_fn, ModeKeys.PREDICT)
        wanted = _chosen(spec.predictions, keys)
        session = MonitoredSession(ChiefSessionCreator(
            spec.scaffold, config.master, config.session_config,
            checkpoint_filename_with_path=checkpoint),
            [*input_hooks, *hooks, *spec.prediction_hooks])
    try:
        while not session.should_stop():
            try:
                with graph.as_default():
                    found = session.run(wanted)
            except (errors.OutOfRangeError, StopIteration):
                break
            if not yields_examples:
                yield found
            elif not isinstance(found, dict):
                yield from found
            else:
                for k in range(_length(found)):
                    yield {name: value[k] for name, value in found.items()}
    finally:
        with graph.as_default():
            session.close()


def _chosen(predictions: Mapping[str, Any], keys: Any) -> Any:
    if not keys:
        return predictions
    if not isinstance(predictions, dict):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    keys = [keys] if isinstance(keys, str) else list(keys)
    chosen = {name: value for name, value in predictions.items() if name in keys}
    if not chosen:
        raise ValueError(f"Expected to run at least one output from {sorted(predictions)}, "
                         f"provided {keys}.")
    return chosen


def _length(found: dict[str, Any]) -> int:
    """The number of examples."""
    lengths = {name: len(value) if value.ndim else None for name, value in found.items()}
    if None in lengths.values() or len(set(lengths.values())) != 1:
        raise ValueError(f"Batch length of predictions should be same; they are {lengths}")
    return next(iter(lengths.values()))  # type: ignore[return-value]
