"""Losses of ``keras.backend``, of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.keras.settings import epsilon

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorHandle, TensorLike


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Any:
    """Return -t log p - (1 - t) log(1 - p), element by element."""
    target, output = hf.convert_to_tensor(target), hf.convert_to_tensor(output)
    if from_logits:
        return hf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=output)
    output = hf.clip_by_value(output, epsilon(), 1.0 - epsilon())
    loss = target * hf.log(output + epsilon())
    return -(loss + (1 - target) * hf.log(1 - output + epsilon()))


def categorical_crossentropy(target: TensorLike, output: TensorLike, from_logits: bool = False,
                             axis: int = -1) -> Any:
    """Return the sums over classes of -t log p."""
    target, output = hf.convert_to_tensor(target), hf.convert_to_tensor(output)
    if from_logits:
        return hf.nn.softmax_cross_entropy_with_logits_v2(labels=target, logits=output, dim=axis)
    output = output / hf.reduce_sum(output, axis, keepdims=True)
    output = hf.clip_by_value(output, epsilon(), 1.0 - epsilon())
    return -hf.reduce_sum(target * hf.log(output), axis)


def sparse_categorical_crossentropy(target: TensorLike, output: TensorHandle,
                                    from_logits: bool = False, axis: int = -1) -> Any:
    """Return -log p of the classes with the numbers in `target`."""
    target, output = hf.convert_to_tensor(target), hf.convert_to_tensor(output)
    if not from_logits:
        output = hf.log(hf.clip_by_value(output, epsilon(), 1.0 - epsilon()))
    rank = output.get_shape().ndims or 2
    if axis % rank != rank - 1:
        output = hf.transpose(output, [*(i for i in range(rank) if i != axis % rank), axis % rank])
    classes = hf.cast(target, hf.int64)
    if classes.get_shape().ndims == rank:
        classes = hf.squeeze(classes, [-1])
    dims = output.get_shape()
    flat = hf.reshape(output, [-1, dims[-1].value or hf.shape(output)[-1]])
    losses = hf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=hf.reshape(classes, [-1]), logits=flat)
    if rank > 2:
        losses = hf.reshape(losses, hf.shape(output)[:-1])
    return losses


def ctc_batch_cost(y_true: TensorLike, y_pred: TensorLike, input_length: TensorLike,
                   label_length: TensorLike) -> Any:
    """Return the CTC losses, shape ``[batch, 1]``, of probabilities ``[batch, time, classes]``.

    `y_true` holds labels ``[batch, longest]``; the lengths have shape ``[batch, 1]``.
    """
    lengths = hf.cast(hf.squeeze(label_length, [-1]), hf.int32)
    steps = hf.cast(hf.squeeze(input_length, [-1]), hf.int32)
    present = hf.sequence_mask(lengths, hf.shape(y_true)[1])
    indices = hf.where(present)
    labels = hf.SparseTensor(indices, hf.cast(hf.boolean_mask(y_true, present), hf.int32),
                             hf.shape(y_true, out_type=hf.int64))
    scores = hf.log(hf.transpose(y_pred, [1, 0, 2]) + epsilon())
    return hf.expand_dims(hf.nn.ctc_loss(inputs=scores, labels=labels, sequence_length=steps), 1)


def ctc_label_dense_to_sparse(labels: Any, label_lengths: Any) -> Any:
    """Return the first labels of each row, as many as `label_lengths` says, as a sparse tensor."""
    kept = hf.sequence_mask(label_lengths, hf.shape(labels)[1])
    places = hf.where(kept)
    return hf.SparseTensor(places, hf.gather_nd(labels, places),
                           hf.cast(hf.shape(labels), hf.int64))


def ctc_decode(y_pred: Any, input_length: Any, greedy: bool = True, beam_width: int = 100,
               top_paths: int = 1) -> tuple[list, Any]:
    """Return the most probable labels of probabilities of shape ``[batch, time, classes]``, rows
    filled with -1, and the logarithms of their probabilities.

    The best of each step are taken (`greedy`), or the `top_paths` best of a search.
    """
    steps = hf.log(hf.transpose(y_pred, [1, 0, 2]) + epsilon())
    length = hf.cast(input_length, hf.int32)
    decoded, logs = hf.nn.ctc_greedy_decoder(steps, length) if greedy else \
        hf.nn.ctc_beam_search_decoder(steps, length, beam_width, top_paths)
    return [hf.sparse_tensor_to_dense(v, default_value=-1) for v in decoded], logs
