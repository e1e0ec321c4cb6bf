"""What exported models of ``contrib.learn`` are fed, and when experiments export them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hpcflow.estimator import Estimator
from hpcflow.estimator.export import build_parsing_serving_input_receiver_fn
from hpcflow.estimator.exporters import Exporter, keep_last
from hpcflow.estimator.features import argument_names


class InputFnOps(NamedTuple):
    """The features of a model, its labels (None for exports), and what is fed, by name."""

    features: Any
    labels: Any
    default_inputs: dict


def build_parsing_serving_input_fn(feature_spec: Mapping[str, Any],
                                   default_batch_size: int | None = None) -> Callable:
    """Return a function that feeds serialized Examples and parses them by `feature_spec`."""
    receive = build_parsing_serving_input_receiver_fn(feature_spec, default_batch_size)

    def serving_input_fn() -> InputFnOps:
        received = receive()
        return InputFnOps(received.features, None, received.receiver_tensors)

    return serving_input_fn


class ExportStrategy(Exporter):
    """Exports a model after evaluations.

    Args:
        name: of the directory below ``export``.
        export_fn: ``export_fn(estimator, directory)`` exports and returns a path. It may take
            ``checkpoint_path``, ``eval_result`` and ``strip_default_attrs``, too.
        strip_default_attrs: given to `export_fn`.
    """

    def __init__(self, name: str, export_fn: Callable,
                 strip_default_attrs: bool | None = None) -> None:
        self._name = name
        self.export_fn, self.strip_default_attrs = export_fn, strip_default_attrs

    @property
    def name(self) -> str:
        """The name of the directory below ``export``."""
        return self._name

    def export(self, estimator: Any, export_path: str, checkpoint_path: str | None = None,
               eval_result: dict | None = None, is_the_final_export: bool = True) -> Any:
        """Return what the function returns.

        Raises ``ValueError`` for one that takes a result without the checkpoint.
        """
        names = argument_names(self.export_fn)
        if "eval_result" in names and "checkpoint_path" not in names:
            raise ValueError("An export_fn accepting eval_result must also accept checkpoint_path.")
        given = {"checkpoint_path": checkpoint_path, "eval_result": eval_result,
                 "strip_default_attrs": self.strip_default_attrs}
        return self.export_fn(estimator, export_path, **{
            name: value for name, value in given.items() if name in names})


def make_export_strategy(serving_input_fn: Callable,
                         default_output_alternative_key: str | None = None,
                         assets_extra: dict | None = None, as_text: bool = False,
                         exports_to_keep: int | None = 5,
                         strip_default_attrs: bool | None = None) -> ExportStrategy:
    """Return a strategy that writes SavedModels, and keeps the last `exports_to_keep` (None: all).

    Args:
        serving_input_fn: returns what is fed: ``InputFnOps``, or what estimators of
            ``hf.estimator`` take.
        default_output_alternative_key: the head that is served by default, of several.
        assets_extra, as_text, strip_default_attrs: as of ``Estimator.export_savedmodel``.
    """

    def export_fn(estimator: Any, export_dir_base: str, checkpoint_path: str | None = None,
                  strip_default_attrs: bool | None = False) -> Any:
        more = {}
        if not isinstance(estimator, Estimator):
            more["default_output_alternative_key"] = default_output_alternative_key
        elif default_output_alternative_key is not None:
            raise ValueError("default_output_alternative_key is not supported in core Estimator. "
                             f"Given: {default_output_alternative_key}")
        path = estimator.export_savedmodel(
            export_dir_base, serving_input_fn, assets_extra=assets_extra, as_text=as_text,
            checkpoint_path=checkpoint_path, strip_default_attrs=bool(strip_default_attrs), **more)
        keep_last(export_dir_base, exports_to_keep)
        return path

    return ExportStrategy("Servo", export_fn, strip_default_attrs)
