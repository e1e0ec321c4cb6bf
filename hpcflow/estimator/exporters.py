"""Exporters, which write models after evaluations; see ``train_and_evaluate``."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Callable
from typing import Any

from hpcflow.platform import logging
from hpcflow.train.training_util import summary_iterator


class Exporter:
    """Exports a model after an evaluation."""

    @property
    def name(self) -> str:
        """The name of its directory below ``export``."""
        raise NotImplementedError(f"{type(self).__name__} has no name")

    def export(self, estimator: object, export_path: str, checkpoint_path: str | None,
               eval_result: dict, is_the_final_export: bool) -> bytes | None:
        """Export the evaluated model; return the path, or None if it was not exported."""
        raise NotImplementedError(f"{type(self).__name__} does not export")


class _SavedModelExporter(Exporter):
    """Writes SavedModels.

    Args:
        name: of its directory.
        serving_input_receiver_fn: returns what is fed; see ``hf.estimator.export``.
        assets_extra, as_text: as of ``Estimator.export_saved_model``.
    """

    def __init__(self, name: str, serving_input_receiver_fn: Callable,
                 assets_extra: dict | None = None, as_text: bool = False) -> None:
        self._name, self._receiver_fn = name, serving_input_receiver_fn
        self._assets_extra, self._as_text = assets_extra, as_text

    @property
    def name(self) -> str:
        """The name of its directory below ``export``."""
        return self._name

    def export(self, estimator: Any, export_path: str, checkpoint_path: str | None,
               eval_result: dict, is_the_final_export: bool) -> bytes | None:
        """See Exporter."""
        return estimator.export_saved_model(export_path, self._receiver_fn, self._assets_extra,
                                            self._as_text, checkpoint_path)


class FinalExporter(_SavedModelExporter):
    """Exports once, at the end."""

    def export(self, estimator: Any, export_path: str, checkpoint_path: str | None,
               eval_result: dict, is_the_final_export: bool) -> bytes | None:
        """See Exporter."""
        if not is_the_final_export:
            return None
        return super().export(estimator, export_path, checkpoint_path, eval_result, True)


class LatestExporter(_SavedModelExporter):
    """Exports after each evaluation, and keeps the last `exports_to_keep` (None: all)."""

    def __init__(self, name: str, serving_input_receiver_fn: Callable,
                 assets_extra: dict | None = None, as_text: bool = False,
                 exports_to_keep: int | None = 5) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        _check_count(exports_to_keep)
        self._kept = exports_to_keep

    def export(self, estimator: Any, export_path: str, checkpoint_path: str | None,
               eval_result: dict, is_the_final_export: bool) -> bytes | None:
        """See Exporter."""
        path = super().export(estimator, export_path, checkpoint_path, eval_result,
                              is_the_final_export)
        keep_last(export_path, self._kept)
        return path


def _loss_smaller(best_eval_result: dict, current_eval_result: dict) -> bool:
    """True if the loss of the second is smaller; ``ValueError`` without losses."""
    for result in (best_eval_result, current_eval_result):
        if not result or "loss" not in result:
            raise ValueError(f"the result of an evaluation must have a loss; got {result}")
    return best_eval_result["loss"] > current_eval_result["loss"]


class BestExporter(_SavedModelExporter):
    """Exports after evaluations that are better than all before.

    Args:
        name, serving_input_receiver_fn, assets_extra, as_text: as of the others.
        event_file_pattern: of the files, below the model's directory, in which the results of
            earlier evaluations stand: the best of them is still to be beaten after a restart.
            None: a new process exports its first evaluation.
        compare_fn: ``compare_fn(best_eval_result=, current_eval_result=)`` is true if the second
            is better; by default if its loss is smaller.
        exports_to_keep: how many; None for all.
    """

    def __init__(self, name: str = "best_exporter",
                 serving_input_receiver_fn: Callable | None = None,
                 event_file_pattern: str | None = "eval/*.tfevents.*",
                 compare_fn: Callable[..., bool] = _loss_smaller,
                 assets_extra: dict | None = None, as_text: bool = False,
                 exports_to_keep: int | None = 5) -> None:
        if serving_input_receiver_fn is None:
            raise ValueError("serving_input_receiver_fn must be defined.")
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        _check_count(exports_to_keep)
        self._kept, self._better = exports_to_keep, compare_fn
        self._pattern = event_file_pattern
        self._best: dict | None = None
        self._model_dir: str | None = None

    def export(self, estimator: Any, export_path: str, checkpoint_path: str | None,
               eval_result: dict, is_the_final_export: bool) -> bytes | None:
        """See Exporter."""
        if self._pattern and self._model_dir != estimator.model_dir:
            self._model_dir = estimator.model_dir
            pattern = os.path.join(estimator.model_dir, self._pattern)
            self._best = self._best_before(pattern, eval_result)
        if not self._is_better(eval_result):
            return None
        logging.info("Performing best model export.")
        self._best = eval_result
        path = super().export(estimator, export_path, checkpoint_path, eval_result,
                              is_the_final_export)
        keep_last(export_path, self._kept)
        return path

    def _is_better(self, result: dict) -> bool:
        return self._best is None or self._better(best_eval_result=self._best,
                                                  current_eval_result=result)

    def _best_before(self, pattern: str, current: dict) -> dict | None:
        """The best result in event files, but for the last, if that is `current`."""
        results = _results_in(pattern)
        self._best = None
        if results and results[-1][0] == current.get("global_step"):
            del results[-1]
        for _, result in results:
            if self._is_better(result):
                self._best = result
        return self._best


def _results_in(pattern: str) -> list[tuple[int, dict]]:
    """Global step and values of the evaluations in event files, in order of time."""
    events = [event for path in glob.glob(pattern) for event in summary_iterator(path)]
    found = []
    for event in sorted(events, key=lambda event: event.wall_time):
        values = {value.tag: value.simple_value for value in event.summary.value
                  if value.HasField("simple_value")}
        if "loss" in values:
            found.append((event.step, values))
    return found


def _check_count(number: int | None) -> None:
    if number is not None and number <= 0:
        raise ValueError(f"`exports_to_keep`, if provided, must be a positive number. Got {number}")


def keep_last(path: str, number: int | None) -> None:
    """Remove all exports of a directory but the last."""
    if number is None:
        return
    exports = sorted((name for name in os.listdir(path) if name.isdigit()), key=int)
    for name in exports[:-number]:
        shutil.rmtree(os.path.join(path, name), ignore_errors=True)
