"""Producers of input: queues filled over and over with strings, numbers or slices."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes
from hpcflow.graph.convert import convert_n_to_tensor, convert_to_tensor
from hpcflow.graph.graph import control_dependencies, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorHandle, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.constants import range as range_tensor
from hpcflow.ops.flow.checks import Assert
from hpcflow.ops.io.io import matching_files
from hpcflow.ops.io.queues import FIFOQueue
from hpcflow.ops.io.summary import scalar
from hpcflow.ops.random.random_ops import random_shuffle
from hpcflow.ops.state.variables import Variable
from hpcflow.shapes import as_shape
from hpcflow.train.queue_runner import QueueRunner, add_queue_runner


def match_filenames_once(pattern: TensorLike, name: str | None = None) -> Variable:
    """Return a local variable with the names of the files that match `pattern`, found when it is
    initialized."""
    with name_scope(name, "matching_filenames", [pattern]) as scope:
        return Variable(matching_files(pattern), trainable=False, name=scope,
                        validate_shape=False, collections=[GraphKeys.LOCAL_VARIABLES])


def limit_epochs(tensor: TensorLike, num_epochs: int | None = None,
                 name: str | None = None) -> Tensor:
    """Return `tensor`, `num_epochs` times (always if None); then ``OutOfRangeError``.

    The count is a local variable, to be initialized. Raises ``ValueError`` for a number that is
    not positive.
    """
    tensor = convert_to_tensor(tensor)
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with name_scope(name, "limit_epochs", [tensor]) as scope:
        epochs = Variable(convert_to_tensor(0, dtypes.int64), name="epochs", trainable=False,
                          collections=[GraphKeys.LOCAL_VARIABLES])
        with control_dependencies([epochs.count_up_to(num_epochs)]):
            return raw_ops.Identity(tensor, name=scope)


def input_producer(input_tensor: TensorHandle, element_shape: Any = None,
                   num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None,
                   capacity: int = 32, shared_name: str | None = None,
                   summary_name: str | None = None, name: str | None = None,
                   cancel_op: Any = None) -> FIFOQueue:
    """Return a queue filled with the rows of `input_tensor`, by a queue runner of the graph.

    Args:
        input_tensor: the rows.
        element_shape: shape of a row, if the tensor's is not known.
        num_epochs: how often every row comes; without end if None.
        shuffle: shuffle the rows within each epoch, by `seed`.
        capacity: of the queue.
        shared_name: share the queue under this name.
        summary_name: name of a summary of how full the queue is; none if None.
        name: name scope.
        cancel_op: op of the queue runner that cancels; by default it closes the queue.

    Raises ``ValueError`` for rows of unknown shape.
    """
    with name_scope(name, "input_producer", [input_tensor]) as scope:
        input_tensor = convert_to_tensor(input_tensor, name="input_tensor")
        element_shape = input_tensor.get_shape()[1:].merge_with(
            as_shape(element_shape) if element_shape is not None else None)
        if not element_shape.is_fully_defined():
            raise ValueError("Either `input_tensor` must have a fully defined shape or "
                             "`element_shape` must be specified")
        if shuffle:
            input_tensor = random_shuffle(input_tensor, seed=seed)
        input_tensor = limit_epochs(input_tensor, num_epochs)
        queue = FIFOQueue(capacity, [input_tensor.dtype.base_dtype], [element_shape],
                          shared_name=shared_name, name=scope)
        enqueue = queue.enqueue_many([input_tensor])
        add_queue_runner(QueueRunner(queue, [enqueue], cancel_op=cancel_op))
        if summary_name is not None:
            scalar(summary_name, raw_ops.Cast(queue.size(), DstT=dtypes.float32) * (1 / capacity))
        return queue


def string_input_producer(string_tensor: Any, num_epochs: int | None = None, shuffle: bool = True,
                          seed: int | None = None, capacity: int = 32,
                          shared_name: str | None = None, name: str | None = None,
                          cancel_op: Any = None) -> FIFOQueue:
    """Return a queue of strings (file names), filled by a queue runner.

    Arguments as of :func:`input_producer`. Raises ``ValueError`` for an empty list, when run
    ``InvalidArgumentError`` for an empty tensor.
    """
    message = "string_input_producer requires a non-null input tensor"
    if not isinstance(string_tensor, (Tensor, Variable)) and not len(string_tensor):
        raise ValueError(message)
    with name_scope(name, "input_producer", [string_tensor]) as scope:
        strings = convert_to_tensor(string_tensor, dtypes.string)
        nonempty = Assert(raw_ops.Greater(raw_ops.Size(strings), 0), [message])
        with control_dependencies([nonempty]):
            strings = raw_ops.Identity(strings)
        return input_producer(strings, [], num_epochs, shuffle, seed, capacity, shared_name,
                              f"fraction_of_{capacity}_full", scope, cancel_op)


def range_input_producer(limit: TensorLike, num_epochs: int | None = None, shuffle: bool = True,
                         seed: int | None = None, capacity: int = 32,
                         shared_name: str | None = None, name: str | None = None) -> FIFOQueue:
    """Return a queue of the numbers from 0 to `limit` - 1, filled by a queue runner.

    Arguments as of :func:`input_producer`.
    """
    with name_scope(name, "input_producer", [limit]) as scope:
        return input_producer(range_tensor(limit), [], num_epochs, shuffle, seed, capacity,
                              shared_name, f"fraction_of_{capacity}_full", scope)


def slice_input_producer(tensor_list: list, num_epochs: int | None = None, shuffle: bool = True,
                         seed: int | None = None, capacity: int = 32,
                         shared_name: str | None = None, name: str | None = None) -> list[Tensor]:
    """Return one slice of each tensor, the same along their first dimensions; another one in every
    step, as :func:`range_input_producer` says.

    Raises ``ValueError`` for an empty list.
    """
    with name_scope(name, "input_producer", list(tensor_list)):
        tensors = convert_n_to_tensor(tensor_list)
        if not tensors:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        count = tensors[0].get_shape().with_rank_at_least(1)[0].value
        limit = count if count is not None else raw_ops.Gather(raw_ops.Shape(tensors[0]), 0)
        queue = range_input_producer(limit, num_epochs, shuffle, seed, capacity, shared_name)
        index = queue.dequeue()
        return [raw_ops.Gather(t, index) for t in tensors]
