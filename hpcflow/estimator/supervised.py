"""SavedModels of a model in training and evaluation: fed features and labels, and signatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow.estimator import exporting
from hpcflow.estimator.features import features_and_labels
from hpcflow.estimator.spec import ModeKeys
from hpcflow.graph.graph import Graph
from hpcflow.graph.operation import Tensor
from hpcflow.ops.arrays.constants import placeholder

if TYPE_CHECKING:
    from hpcflow.estimator.base import Estimator

__all__ = [
    "SupervisedInputReceiver", "build_raw_supervised_input_receiver_fn",
    "build_supervised_input_receiver_fn_from_input_fn", "export_all_saved_models",
    "export_saved_model_for_mode",
]  # fmt: skip


class SupervisedInputReceiver(NamedTuple):
    """The inputs of a model in training or evaluation, and what is fed for them, by name."""

    features: Any
    labels: Any
    receiver_tensors: Mapping[str, Tensor]


def build_raw_supervised_input_receiver_fn(
        features: Any, labels: Any,
        default_batch_size: int | None = None) -> Callable[[], SupervisedInputReceiver]:
    """Return a function that feeds batches such as `features` and `labels`.

    Args:
        features: a tensor, or tensors by name.
        labels: a tensor, tensors by name, or None.
        default_batch_size: the size of batches; None for any.

    Raises ``ValueError`` for a name that both have, and for values without a batch dimension.
    """
    fed = _by_name(features, "feature"), {} if labels is None else _by_name(labels, "label")
    twice = set(fed[0]) & set(fed[1])
    if twice:
        raise ValueError(f"Features and labels must have distinct keys. Both have: {sorted(twice)}")
    forms = [{name: (like.dtype.base_dtype, [default_batch_size, *_inner(name, like)])
              for name, like in part.items()} for part in fed]

    def receive() -> SupervisedInputReceiver:
        made, wanted = ({name: placeholder(*form, name=name) for name, form in part.items()}
                        for part in forms)
        return SupervisedInputReceiver(
            made if isinstance(features, Mapping) else made["feature"],
            None if labels is None else wanted if isinstance(labels, Mapping) else wanted["label"],
            made | wanted)

    return receive


def _by_name(given: Any, alone: str) -> dict[str, Tensor]:
    return dict(given) if isinstance(given, Mapping) else {alone: given}


def _inner(name: str, like: Tensor) -> list:
    if not like.shape.ndims:
        raise ValueError(f"{name!r} has no batch dimension: its shape is {like.shape}")
    return like.shape.as_list()[1:]


def build_supervised_input_receiver_fn_from_input_fn(
        input_fn: Callable, **input_fn_args: Any) -> Callable[[], SupervisedInputReceiver]:
    """Return a function that feeds what has the form of what `input_fn` returns.

    `input_fn` is called once, with `input_fn_args`, in a graph of its own.
    """
    with Graph().as_default():
        features, labels, _ = features_and_labels(
            lambda: input_fn(**input_fn_args), ModeKeys.TRAIN, {}, None)
        return build_raw_supervised_input_receiver_fn(features, labels)


def export_all_saved_models(
        estimator: Estimator, export_dir_base: str,
        input_receiver_fn_map: Mapping[str, Callable],
        assets_extra: dict[str, str] | None = None, as_text: bool = False,
        checkpoint_path: str | None = None) -> bytes:
    """Write one SavedModel with a graph for each mode into a new directory, and return its path.

    Args:
        estimator: the model.
        export_dir_base: where that directory is made, named after the time.
        input_receiver_fn_map: mode -> what returns the inputs of its graph.
        assets_extra: path below ``assets.extra`` -> file to copy there.
        as_text: write the graphs as text.
        checkpoint_path: what to export; by default the latest one.

    The graphs have the tags "train", "eval" and "serve". Raises ``ValueError`` without a mode that
    there is, or without a checkpoint.
    """
    return exporting.export(
        estimator, export_dir_base, input_receiver_fn_map, assets_extra, as_text,
        checkpoint_path or estimator.latest_checkpoint(), False)


def export_saved_model_for_mode(
        estimator: Estimator, export_dir_base: str, input_receiver_fn: Callable,
        assets_extra: dict[str, str] | None = None, as_text: bool = False,
        checkpoint_path: str | None = None, mode: str = ModeKeys.PREDICT) -> bytes:
    """As ``export_all_saved_models``, for one mode."""
    return export_all_saved_models(estimator, export_dir_base, {mode: input_receiver_fn},
                                   assets_extra, as_text, checkpoint_path)
