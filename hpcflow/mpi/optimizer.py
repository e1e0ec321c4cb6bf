"""DistributedOptimizer: gradients reduced over the ranks while the backward pass still runs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hpcflow.comm.reduction import MEAN, cover, join
from hpcflow.device_spec import DeviceSpec
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import device, get_default_graph, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import seeds_of_part
from hpcflow.host.tuning import programs as tuning
from hpcflow.mpi import cluster
from hpcflow.mpi.operations import allreduce
from hpcflow.ops.arrays.joining import split
from hpcflow.ops.common.grouping import with_dependencies
from hpcflow.ops.flow.collectives import add_op, check_reduction
from hpcflow.ops.state.variable_scope import get_variable_scope, variable_scope
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import Optimizer


class DistributedOptimizer(Optimizer):
    """An optimizer whose gradients are those of all ranks::

        optimizer = hf.mpi.DistributedOptimizer(hf.train.MomentumOptimizer(0.1, 0.9))
        train_op = optimizer.minimize(loss)

    Every rank computes the gradients of its own batch; they are averaged, and every rank makes the
    same update to its own variables. Small gradients travel together in buckets. A bucket is on its
    way as soon as its gradients are there, in an order that the graph fixes. Gradients that are
    ``IndexedSlices`` are gathered.

    Args:
        optimizer: makes the updates.
        reduction: "mean" or "sum".
        bucket_bytes: the size from which a bucket is full; 0 sends every gradient by itself.
        slices: the global batch is cut into so many slices, for results that are bitwise the same
            for every number of ranks that divides it; see :meth:`compute_gradients`.
        place: with `slices`, the index and the number of this rank among those that train; its
            rank and the size of the job if None.
        name: name scope of the operations.

    Raises ``TypeError`` if `optimizer` is none, ``ValueError`` for wrong numbers.
    """

    def __init__(self, optimizer: Optimizer, reduction: str = MEAN, bucket_bytes: int = 8 << 20,
                 slices: int = 0, place: tuple[int, int] | None = None,
                 name: str = "DistributedOptimizer") -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"expected an optimizer to wrap, got {optimizer!r}")
        if reduction not in (MEAN, "sum"):
            raise ValueError(f"gradients are reduced by 'mean' or 'sum', got {reduction!r}")
        if bucket_bytes < 0 or slices < 0:
            raise ValueError(f"bucket_bytes={bucket_bytes}, slices={slices}: expected no negative "
                             "number")
        cluster.size()  # fails early where MPI cannot start
        super().__init__(False, name)
        self._optimizer = optimizer
        self._reduction = reduction
        self._bucket_bytes = bucket_bytes
        self._slices = slices
        self._place = place

    # ------------------------------------------------------------ gradients

    def compute_gradients(self, loss: Any, var_list: Any = None, *args: Any,
                          inputs: Sequence[Any] | None = None,
                          **kwargs: Any) -> list[tuple[Any, Variable]]:
        """Return (gradient, variable) pairs; the gradients are those of all ranks.

        Arguments and errors as of the wrapped optimizer. With `slices`, `loss` is a function that
        builds the loss of some rows, and `inputs` are its arguments: this rank's rows of the global
        batch, an equal part for each rank. The function is called for each of this rank's slices,
        and the gradients of the slices are joined in one binary tree, whatever rank has which. With
        a seed of the graph, what is random in a slice (dropout, say) follows from the slice. For
        equal bits the kernels must also use equally many threads in all runs
        (``OMP_NUM_THREADS``). Raises ``ValueError`` if the ranks do not divide the slices.
        """
        if self._slices:
            return self._slice_gradients(loss, inputs, var_list, args, kwargs)
        if inputs is not None:
            raise ValueError("inputs are for a DistributedOptimizer with slices")
        pairs = self._optimizer.compute_gradients(loss, var_list, *args, **kwargs)
        with name_scope(self._name):
            return reduced_gradients(pairs, self._reduction, self._bucket_bytes)

    def minimize(self, loss: TensorLike, global_step: Variable | None = None,
                 var_list: Sequence[Variable] | None = None,
                 gate_gradients: int = Optimizer.GATE_OP, aggregation_method: int | None = None,
                 colocate_gradients_with_ops: bool = False, name: str | None = None,
                 grad_loss: Any = None, inputs: Sequence[Any] | None = None) -> Operation:
        """As of any optimizer; `loss` and `inputs` as of :meth:`compute_gradients`."""
        pairs = self.compute_gradients(
            loss, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops,
            grad_loss, inputs=inputs)
        if all(grad is None for grad, _ in pairs):
            names = ", ".join(v.op.name for _, v in pairs)
            raise ValueError(f"No gradients provided for any variable: no differentiable path "
                             f"leads from the variables {names} to the loss")
        return self.apply_gradients(pairs, global_step=global_step, name=name)

    # ------------------------------------------------------------ slices

    def _slice_gradients(self, loss: TensorLike, inputs: Any, var_list: Any, args: Sequence[Any],
                         kwargs: Mapping[str, Any]) -> list[tuple[Any, Variable]]:
        if not callable(loss) or not inputs:
            raise ValueError("With slices, loss must be a function and inputs its arguments")
        index, ranks = self._place or (cluster.rank(), cluster.size())
        if self._slices % ranks:
            raise ValueError(f"{self._slices} slices on {ranks} ranks: expected a number of ranks "
                             "that divides the slices")
        get_default_graph()._ask_for_equal_bits()
        count = self._slices // ranks
        found = [self._optimizer.compute_gradients(part, var_list, *args, **kwargs)
                 for part in _losses(loss, inputs, index * count, count)]
        with name_scope(self._name):
            return self._joined(found, index * count)

    def _joined(self, found: list[list[tuple[Any, Any]]], first: int) -> list[tuple[Any, Any]]:
        """Join the gradients of the local slices, from number `first` on, with other ranks'."""
        results = []
        for of_slices in zip(*found, strict=True):
            grads, var = [g for g, _ in of_slices], of_slices[0][1]
            results.append((self._join_one(grads, first, var), var))
        return results

    def _join_one(self, grads: list[Any], first: int, var: Variable) -> Any:
        if any(g is None for g in grads):
            return None
        leaves = {(0, first + i): convert_to_tensor(g) for i, g in enumerate(grads)}
        nodes = cover(first, first + len(grads), self._slices)
        with device(_task_of(leaves[0, first])):
            values = [join(leaves, self._slices, raw_ops.Add, node) for node in nodes]
            return _as_list(add_op(
                "MpiAllreduceSlices", values, N=1, slices=self._slices,
                reduction=self._reduction.encode(), key=_key_of([var.op.name]),
                name="allreduce"))[0]

    # ------------------------------------------------------------ the wrapped optimizer

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Operation:
        """As of the wrapped optimizer."""
        return self._optimizer.apply_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Variable | None:
        """As of the wrapped optimizer."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """As of the wrapped optimizer."""
        return self._optimizer.get_slot_names(*args, **kwargs)


def reduced_gradients(pairs: Sequence[tuple[Any, Any]], reduction: str = "sum",
                      bucket_bytes: int = 8 << 20) -> list[tuple[Any, Any]]:
    """Return (gradient, variable) pairs with the gradients of all ranks, see the class above."""
    results: list[Any] = [None] * len(pairs)
    for i, (grad, _) in enumerate(pairs):
        if isinstance(grad, IndexedSlices):
            with device(_task_of(grad.values)):
                results[i] = allreduce(grad, reduction)
    for bucket in buckets([g for g, _ in pairs], bucket_bytes):
        with device(_task_of(pairs[bucket[0]][0])):
            grads, gates = zip(*(_ungated(pairs[i][0]) for i in bucket), strict=True)
            check_reduction(reduction, grads[0].dtype)
            key = _key_of([pairs[i][1].op.name for i in bucket])
            reduced = _as_list(add_op("MpiAllreduce", list(grads), reduction=reduction.encode(),
                                      key=key, name="allreduce"))
            for i, value, gate in zip(bucket, reduced, gates, strict=True):
                results[i] = with_dependencies(gate, value) if gate else value
    return [(grad, var) for grad, (_, var) in zip(results, pairs, strict=True)]


def buckets(grads: Sequence[Any], bucket_bytes: int) -> list[list[int]]:
    """Group the gradients into buckets that are reduced together: positions, earliest first.

    Gradients are taken in the order in which the backward pass makes them. A large one, or one of
    unknown size, is a bucket of its own.
    """
    order = sorted((i for i, g in enumerate(grads) if isinstance(g, Tensor)),
                   key=lambda i: grads[i].op._id)
    found: list[list[int]] = []
    filling: dict[Any, list[int]] = {}
    for i in order:
        size = _bytes_of(grads[i])
        if size is None or size >= min(tuning.GRADIENT_ALONE_BYTES, bucket_bytes):
            found.append([i])
            continue
        kind = (grads[i].dtype.base_dtype, _task_of(grads[i]))
        bucket = filling.setdefault(kind, [])
        bucket.append(i)
        if sum(_bytes_of(grads[j]) or 0 for j in bucket) >= bucket_bytes:
            found.append(filling.pop(kind))
    found += filling.values()
    place = {i: n for n, i in enumerate(order)}
    return sorted(found, key=lambda bucket: place[bucket[-1]])


def _ungated(grad: Tensor) -> tuple[Tensor, list[Operation]]:
    """Return `grad` without the gate on it, and the operations that its users have to wait for.

    The gradients of one operation are gated: each comes when all of them are there, so that no
    update changes what another still reads. A reduction changes nothing and need not wait.
    """
    op = grad.op
    gates = op.control_inputs
    if op.type != "Identity" or len(gates) != 1 or gates[0].type != "NoOp" or gates[0].inputs:
        return grad, []
    source = op.inputs[0]
    others = [o for o in gates[0].control_inputs if o is not source.op]
    if len(others) == len(gates[0].control_inputs):  # it waits for something else
        return grad, []
    return source, others


def _bytes_of(grad: Tensor) -> int | None:
    dims = grad._dims
    if dims is None or None in dims:
        return None
    size = grad.dtype.base_dtype.size
    for d in dims:
        size *= d
    return size


def _losses(loss: Callable[..., Tensor], inputs: Sequence[Any], first: int,
            count: int) -> Iterator[Tensor]:
    """The loss of each of `count` equal parts of the rows of `inputs`; variables are shared.

    The parts are the slices from number `first` on: what is random in a slice follows from its
    number, whichever rank has it.
    """
    graph = get_default_graph()
    start = graph.version  # tells the slices of several optimizers apart
    parts = [split(x, count) for x in inputs]
    for i, arguments in enumerate(zip(*parts, strict=True)):
        with variable_scope(get_variable_scope(), reuse=True if i else None), seeds_of_part(
                graph, f"{start}/slice_{first + i}"):
            yield loss(*arguments)


def _key_of(names: Sequence[str]) -> bytes:
    """Return a key that distinguishes buckets of the same shapes: the names of their variables."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}, {zlib.crc32(chr(0).join(names).encode()):08x}".encode()


def _task_of(tensor: Tensor) -> str:
    """Return the task of a gradient, without its device: reductions run on the host."""
    spec = DeviceSpec.from_string(tensor.device or "")
    return DeviceSpec(job=spec.job, replica=spec.replica, task=spec.task).to_string()


def _as_list(value: TensorLike) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
