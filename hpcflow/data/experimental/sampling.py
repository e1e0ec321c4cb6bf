"""Elements of several data sets, chosen one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.data.dataset import Dataset
from hpcflow.data.experimental.order import RandomDataset
from hpcflow.data.structure import Structure, merged
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.shapes import TensorShape


def _chosen(choices: Dataset, datasets: Sequence[Dataset]) -> Dataset:
    """The elements of the data sets whose numbers `choices` gives."""
    structure: Structure = datasets[0]._structure
    for other in datasets[1:]:
        structure = merged(structure, other._structure, "Datasets to choose from")
    variant = raw_ops.DirectedInterleaveDataset(
        selector_input_dataset=choices._variant_tensor,
        data_input_datasets=[d._variant_tensor for d in datasets], **structure.attrs)
    return Dataset._of(variant, structure, datasets[0]._options)


def choose_from_datasets(datasets: Sequence[Dataset], choice_dataset: Dataset) -> Dataset:
    """The elements of the data sets whose numbers `choice_dataset` gives, scalars of int64.

    A data set that has ended is passed over. Raises ``TypeError`` for other choices, and for data
    sets of different types.
    """
    if choice_dataset.output_types is not dtypes.int64 or (
            not choice_dataset.output_shapes.is_compatible_with(TensorShape([]))) or (
            choice_dataset.output_classes is not choice_dataset._structure.leaves[0].kind):
        raise TypeError("`choice_dataset` must be a dataset of scalar `tf.int64` tensors.")
    return _chosen(choice_dataset, datasets)


def sample_from_datasets(datasets: Sequence[Dataset], weights: TensorLike | None = None,
                         seed: int | None = None) -> Dataset:
    """Elements of the data sets at random, with probabilities `weights` (all the same by default):
    a vector, or a data set of vectors, one for each element. What has no weight in a vector that is
    known is left out: the others alone say when there is an end.

    Raises ``ValueError`` for another number of weights, ``TypeError`` for weights that are not
    floats.
    """
    if isinstance(weights, Dataset):
        rows = weights.map(lambda *row: raw_ops.Log(*row, name="logits"))
        drawn = Dataset.zip((rows, RandomDataset(seed).batch(2))).map(
            lambda logits, pair: _drawn(raw_ops.ExpandDims(logits, 0), pair))
    else:
        logits = _logits(len(datasets), weights)
        kept = _with_weight(weights)
        if kept is not None and len(kept) < len(datasets):
            if not kept:
                return datasets[0].take(0)
            datasets = [datasets[i] for i in kept]
            logits = raw_ops.GatherV2(logits, np.array(kept, np.int32), np.int32(1))
        if len(datasets) == 1:
            return datasets[0]
        drawn = RandomDataset(seed).batch(2).map(lambda pair: _drawn(logits, pair))
    return _chosen(drawn, datasets)


def _logits(count: int, weights: TensorLike | None) -> Any:
    """Logarithms of the probabilities of `count` data sets, a matrix of one row."""
    if weights is None:
        return [[1.0] * count]
    values = convert_to_tensor(weights, name="weights")
    if values.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError("`weights` must be convertible to a tensor of `tf.float32` or "
                        "`tf.float64` elements.")
    if not values.get_shape().is_compatible_with(TensorShape([count])):
        raise ValueError(f"`weights` must be a vector of length {count}.")
    return raw_ops.ExpandDims(raw_ops.Log(values, name="logits"), 0)


def _with_weight(weights: TensorLike | None) -> list[int] | None:
    """The numbers of the data sets that can be chosen, where they are known: without the others
    there is an end when these have ended."""
    known = None if weights is None else constant_value(convert_to_tensor(weights))
    return None if known is None else np.flatnonzero(known).tolist()


def _drawn(logits: Any, seeds: Tensor) -> Tensor:
    """The number of a data set, at random."""
    return raw_ops.Squeeze(raw_ops.StatelessMultinomial(logits, 1, seeds), squeeze_dims=[0, 1])
