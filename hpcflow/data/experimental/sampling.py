"""Elements of several data sets, chosen one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.data.dataset import Dataset
from hpcflow.data.structure import Structure, merged
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.random.random_ops import get_seed
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
    a vector, or a data set of vectors, one for each element.

    Raises ``ValueError`` for another number of weights, ``TypeError`` for weights that are not
    floats.
    """
    count = len(datasets)
    if isinstance(weights, Dataset):
        rows = weights
    else:
        values = convert_to_tensor(np.full(count, 1.0 / count) if weights is None else weights,
                                   name="weights")
        if not values.dtype.is_floating:
            raise TypeError("`weights` must be convertible to a tensor of `tf.float32` or "
                            "`tf.float64` elements.")
        if not values.get_shape().is_compatible_with(TensorShape([count])):
            raise ValueError(f"`weights` must be a vector of length {count}.")
        rows = Dataset.from_tensors(values).repeat()
    seed1, seed2 = get_seed(seed)

    def draw(probabilities: TensorLike) -> Any:
        logits = raw_ops.ExpandDims(raw_ops.Log(probabilities), 0)
        number = raw_ops.Multinomial(logits, 1, seed=seed1 or 0, seed2=seed2 or 0)
        return raw_ops.Squeeze(number, squeeze_dims=[0, 1])

    return _chosen(rows.map(draw), datasets)
