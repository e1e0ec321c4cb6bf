"""``hpcflow.estimator.export``: the inputs and outputs of exported models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hpcflow import dtypes
from hpcflow.graph.likes import Nest, TensorHandle
from hpcflow.graph.operation import Tensor
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.arrays.constants import placeholder
from hpcflow.ops.io.example_features import parse_example
from hpcflow.platform import logging
from hpcflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from hpcflow.saved_model.signature_def_utils import (
    classification_signature_def,
    predict_signature_def,
    regression_signature_def,
)

__all__ = [
    "ClassificationOutput", "ExportOutput", "PredictOutput", "RegressionOutput",
    "ServingInputReceiver", "TensorServingInputReceiver", "build_parsing_serving_input_receiver_fn",
    "build_raw_serving_input_receiver_fn",
]  # fmt: skip

_FEATURE, _RECEIVER, _OUTPUT = "feature", "input", "output"  # names of what is alone


class ExportOutput:
    """Output of a signature."""

    def as_signature_def(self, receiver_tensors: Mapping[str, Tensor]) -> Any:
        """Return a ``SignatureDef``; ``ValueError`` if it cannot have these inputs."""
        raise NotImplementedError(f"{type(self).__name__} has no signature")


class ClassificationOutput(ExportOutput):
    """Scores ``[batch, classes]``, and, or, the names of classes, of string Examples."""

    def __init__(self, scores: TensorHandle | None = None,
                 classes: TensorHandle | None = None) -> None:
        if scores is None and classes is None:
            raise ValueError("At least one of scores and classes must be set.")
        if scores is not None and not (isinstance(scores, Tensor) and scores.dtype.is_floating):
            raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and not (isinstance(classes, Tensor)
                                        and classes.dtype == dtypes.string):
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
        self.scores, self.classes = scores, classes

    def as_signature_def(self, receiver_tensors: Mapping[str, Tensor]) -> Any:
        """See ExportOutput."""
        examples = _examples("Classification", receiver_tensors)
        return classification_signature_def(examples, self.classes, self.scores)


class RegressionOutput(ExportOutput):
    """Numbers of string Examples."""

    def __init__(self, value: Tensor) -> None:
        if not (isinstance(value, Tensor) and value.dtype.is_floating):
            raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
        self.value = value

    def as_signature_def(self, receiver_tensors: Mapping[str, Tensor]) -> Any:
        """See ExportOutput."""
        return regression_signature_def(_examples("Regression", receiver_tensors), self.value)


class PredictOutput(ExportOutput):
    """Any tensors: one, or a dict."""

    def __init__(self, outputs: Any) -> None:
        self.outputs = _by_name(outputs, _OUTPUT)
        for key, value in self.outputs.items():
            if not isinstance(value, Tensor):
                raise ValueError(f"Prediction outputs must be Tensors; {key!r} is {value}")

    def as_signature_def(self, receiver_tensors: Mapping[str, Tensor]) -> Any:
        """See ExportOutput."""
        return predict_signature_def(receiver_tensors, self.outputs)


class _Receiver(NamedTuple):
    features: Any
    receiver_tensors: dict[str, Tensor]
    receiver_tensors_alternatives: dict[str, dict] | None


class ServingInputReceiver(_Receiver):
    """The inputs of an exported model: the tensors that are fed, and the features made of them.

    Args:
        features: name -> tensor, or a tensor.
        receiver_tensors: name -> what is fed, or a tensor.
        receiver_tensors_alternatives: name -> such a dict, for further signatures.

    Raises ``ValueError`` for values that are no tensors.
    """

    __slots__ = ()

    def __new__(cls, features: Nest, receiver_tensors: Mapping[str, Any],
                receiver_tensors_alternatives: Any = None) -> ServingInputReceiver:
        """Check the values."""
        if features is None:
            raise ValueError("features must be defined.")
        return super().__new__(cls, _checked(_by_name(features, _FEATURE), "feature"),
                               *_receivers(receiver_tensors, receiver_tensors_alternatives))


class TensorServingInputReceiver(_Receiver):
    """As :class:`ServingInputReceiver`, of a model whose features are one tensor."""

    __slots__ = ()

    def __new__(cls, features: Nest, receiver_tensors: Any,
                receiver_tensors_alternatives: Any = None) -> TensorServingInputReceiver:
        """Check the values."""
        _checked({_FEATURE: features}, "feature")
        return super().__new__(cls, features,
                               *_receivers(receiver_tensors, receiver_tensors_alternatives))


def build_parsing_serving_input_receiver_fn(
        feature_spec: Mapping[str, Any],
        default_batch_size: int | None = None) -> Callable[[], ServingInputReceiver]:
    """Return a function that feeds serialized Examples and parses them by `feature_spec`."""

    def receive() -> ServingInputReceiver:
        examples = placeholder(dtypes.string, [default_batch_size], name="input_example_tensor")
        features = parse_example(examples, dict(feature_spec))
        return ServingInputReceiver(features, {"examples": examples})

    return receive


def build_raw_serving_input_receiver_fn(
        features: Mapping[str, Tensor],
        default_batch_size: int | None = None) -> Callable[[], ServingInputReceiver]:
    """Return a function that feeds batches of tensors such as `features`."""

    def receive() -> ServingInputReceiver:
        fed = {}
        for name, like in features.items():
            dims = like.shape.as_list()
            if not dims:
                raise ValueError(f"feature {name!r} has no batch dimension: its shape is "
                                 f"{like.shape}")
            fed[name] = placeholder(like.dtype, [default_batch_size, *dims[1:]],
                                    name=name)
        return ServingInputReceiver(fed, fed)

    return receive


def with_default(outputs: Any) -> dict[str, Any]:
    """Return `outputs` with the default signature added."""
    if not isinstance(outputs, Mapping):
        raise TypeError(f"export_outputs must be dict, given: {outputs}")
    outputs = dict(outputs)
    for value in outputs.values():
        if not isinstance(value, ExportOutput):
            raise TypeError("Values in export_outputs must be ExportOutput objects; "
                            f"given: {outputs}")
    default = DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if default not in outputs:
        if len(outputs) > 1:
            raise ValueError("Multiple export_outputs were provided, but none of them is specified "
                             f"as the default. Do this by naming one of them with {default!r}.")
        (outputs[default],) = outputs.values()
    return outputs


def signatures(receiver: ServingInputReceiver,
               outputs: Mapping[str, ExportOutput]) -> dict[str, Any]:
    """Return the ``SignatureDef``s of all outputs that can have these inputs, by name."""
    found, refused = {}, []
    receivers = {"": receiver.receiver_tensors,
                 **(receiver.receiver_tensors_alternatives or {})}
    for name, tensors in receivers.items():
        for key, output in outputs.items():
            try:
                found[f"{name}:{key}" if name else key] = output.as_signature_def(tensors)
            except ValueError as e:
                refused.append(f"{key!r} with the inputs {sorted(tensors)}: {e}")
    for reason in refused:
        logging.info("Not exported: signature %s", reason)
    if not found:
        raise ValueError("No output can be exported: " + "; ".join(refused))
    return found


def _examples(kind: str, tensors: Mapping[str, Tensor]) -> Tensor:
    if len(tensors) != 1:
        raise ValueError(f"{kind} signatures can have only one input, string Examples; got "
                         f"{sorted(tensors)}")
    (examples,) = tensors.values()
    if examples.dtype != dtypes.string:
        raise ValueError(f"{kind} input must be a string Tensor; got {examples}")
    return examples


def _by_name(given: Any, alone: str) -> dict:
    return dict(given) if isinstance(given, Mapping) else {alone: given}


def _receivers(tensors: Mapping[str, Any], alternatives: Any) -> tuple[dict, dict | None]:
    if tensors is None:
        raise ValueError("receiver_tensors must be defined.")
    if alternatives is not None:
        if not isinstance(alternatives, Mapping):
            raise ValueError("receiver_tensors_alternatives must be a dict: "
                             f"{alternatives}.")
        alternatives = {name: _checked(_by_name(t, _RECEIVER), "receiver_tensor")
                        for name, t in alternatives.items()}
    return _checked(_by_name(tensors, _RECEIVER), "receiver_tensor"), alternatives


def _checked(tensors: dict, what: str) -> dict:
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise ValueError(f"{what} keys must be strings: {name}.")
        if not isinstance(tensor, (Tensor, SparseTensor)):
            raise ValueError(f"{what} {name} must be a Tensor or SparseTensor; got {tensor}")
    return tensors
