"""Signatures: which tensors of a graph are the inputs and outputs of a computation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.errors import NotFoundError
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.saved_model import signature_constants as names
from hpcflow.saved_model.utils import (
    build_tensor_info,
    build_tensor_info_from_op,
    get_element_from_tensor_info,
)

if TYPE_CHECKING:
    from google.protobuf.message import Message


def build_signature_def(inputs: Mapping[str, Any] | None = None,
                        outputs: Mapping[str, Any] | None = None,
                        method_name: str | None = None) -> Any:
    """Return a ``SignatureDef`` of dicts from names to ``TensorInfo``."""
    from tensorboard.compat.proto.meta_graph_pb2 import SignatureDef

    signature = SignatureDef(method_name=method_name)
    for infos, field in ((inputs, signature.inputs), (outputs, signature.outputs)):
        for key, info in (infos or {}).items():
            field[key].CopyFrom(info)
    return signature


def regression_signature_def(examples: Tensor, predictions: Tensor) -> Any:
    """Return the signature of a regression, from serialized Examples to float32 `predictions`.

    Raises ``ValueError`` if one is None or of another dtype.
    """
    _check_examples("Regression", examples)
    if predictions is None:
        raise ValueError("Regression `predictions` cannot be None.")
    outputs = {names.REGRESS_OUTPUTS: _typed_info(
        predictions, dtypes.float32, "Regression output tensors must be of type float")}
    return build_signature_def({names.REGRESS_INPUTS: build_tensor_info(examples)}, outputs,
                               names.REGRESS_METHOD_NAME)


def classification_signature_def(examples: Tensor, classes: Tensor | None,
                                 scores: Tensor | None) -> Any:
    """Return the signature of a classification, from serialized Examples to `classes` (strings)
    and `scores` (float32), of which one may be None.

    Raises ``ValueError`` if `examples` or both are None, or one is of another dtype.
    """
    _check_examples("Classification", examples)
    if classes is None and scores is None:
        raise ValueError("Classification `classes` and `scores` cannot both be None.")
    outputs = {}
    if classes is not None:
        outputs[names.CLASSIFY_OUTPUT_CLASSES] = _typed_info(
            classes, dtypes.string, "Classification classes must be of type string Tensor")
    if scores is not None:
        outputs[names.CLASSIFY_OUTPUT_SCORES] = _typed_info(
            scores, dtypes.float32, "Classification scores must be a float Tensor")
    return build_signature_def({names.CLASSIFY_INPUTS: build_tensor_info(examples)}, outputs,
                               names.CLASSIFY_METHOD_NAME)


def predict_signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    """Return the signature of a prediction, between dicts of tensors of any dtype.

    Raises ``ValueError`` if one is None or empty.
    """
    for what, tensors in (("inputs", inputs), ("outputs", outputs)):
        if not tensors:
            raise ValueError(f"Prediction `{what}` cannot be None or empty.")
    return build_signature_def(_infos(inputs), _infos(outputs), names.PREDICT_METHOD_NAME)


def supervised_train_signature_def(
        inputs: Mapping[str, Any], loss: Mapping[str, Any] | None = None,
        predictions: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None) -> Any:
    """Return the signature of a training step, between dicts of tensors.

    Raises ``ValueError`` if `inputs` is None or empty.
    """
    return _supervised(names.SUPERVISED_TRAIN_METHOD_NAME, inputs, loss, predictions, metrics)


def supervised_eval_signature_def(
        inputs: Mapping[str, Any], loss: Mapping[str, Any] | None = None,
        predictions: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None) -> Any:
    """Return the signature of an evaluation; the arguments and errors are those of
    :func:`supervised_train_signature_def`."""
    return _supervised(names.SUPERVISED_EVAL_METHOD_NAME, inputs, loss, predictions, metrics)


def _supervised(method: str, inputs: Mapping[str, Any],
                *outputs: Mapping[str, Any] | None) -> Any:
    if not inputs:
        raise ValueError(f"{method} inputs cannot be None or empty.")
    merged = {key: tensor for part in outputs for key, tensor in (part or {}).items()}
    return build_signature_def(_infos(inputs), _infos(merged), method)


def op_signature_def(op: Operation | Tensor, key: str) -> Any:
    """Return a signature whose only output, `key`, is an operation."""
    return build_signature_def(outputs={key: build_tensor_info_from_op(op)})


def load_op_from_signature_def(signature_def: Message, key: str,
                               import_scope: str | None = None) -> Operation | Tensor:
    """Return the operation of the default graph that :func:`op_signature_def` named.

    Raises ``NotFoundError`` if the graph has no such operation.
    """
    info = signature_def.outputs[key]
    try:
        return get_element_from_tensor_info(info, import_scope=import_scope)
    except KeyError as error:
        raise NotFoundError(None, None, f"The {key} of the signature could not be found in the "
                            f"graph: {error.args[0]}") from None


def is_valid_signature(signature_def: Message) -> bool:
    """True if a signature has the inputs and outputs that its method name promises."""
    check = _CHECKS.get(signature_def.method_name)
    return check is not None and check(signature_def)


def _infos(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {key: build_tensor_info(tensor) for key, tensor in tensors.items()}


def _check_examples(kind: str, examples: Tensor | None) -> None:
    if examples is None:
        raise ValueError(f"{kind} `examples` cannot be None.")
    if not isinstance(examples, Tensor):
        raise ValueError(f"{kind} `examples` must be a string Tensor, not {type(examples)}.")
    _typed_info(examples, dtypes.string, f"{kind} input tensors must be of type string")


def _typed_info(tensor: Tensor, dtype: DType, expectation: str) -> Any:
    if tensor.dtype.base_dtype is not dtype:
        raise ValueError(f"{expectation}. Found a tensor of type {tensor.dtype.name}.")
    return build_tensor_info(tensor)


def _is(infos: Any, key: str, dtype: DType) -> bool:
    return infos[key].dtype == dtype.as_datatype_enum


def _is_classification(signature: Message) -> bool:
    allowed = {names.CLASSIFY_OUTPUT_CLASSES: dtypes.string,
               names.CLASSIFY_OUTPUT_SCORES: dtypes.float32}
    outputs = signature.outputs
    return bool(set(signature.inputs) == {names.CLASSIFY_INPUTS}
            and _is(signature.inputs, names.CLASSIFY_INPUTS, dtypes.string)
            and outputs and set(outputs) <= set(allowed)
            and all(_is(outputs, key, allowed[key]) for key in outputs))


def _is_regression(signature: Message) -> bool:
    return (set(signature.inputs) == {names.REGRESS_INPUTS}
            and _is(signature.inputs, names.REGRESS_INPUTS, dtypes.string)
            and set(signature.outputs) == {names.REGRESS_OUTPUTS}
            and _is(signature.outputs, names.REGRESS_OUTPUTS, dtypes.float32))


def _is_prediction(signature: Message) -> bool:
    return bool(signature.inputs and signature.outputs)


_CHECKS = {
    names.CLASSIFY_METHOD_NAME: _is_classification,
    names.PREDICT_METHOD_NAME: _is_prediction,
    names.REGRESS_METHOD_NAME: _is_regression,
}
