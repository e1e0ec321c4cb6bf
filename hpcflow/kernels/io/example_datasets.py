"""The kernel of data sets of examples, parsed batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcflow.kernels.common.text import flat
from hpcflow.kernels.io.datasets import components
from hpcflow.kernels.io.examples import Features, keys_of, row_splits
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.kernels.sparse.ragged_variants import RaggedValue
from hpcflow.resources.datasets.base import Dataset, Dims, Element, Run
from hpcflow.resources.datasets.order import Derived


class ExampleDataset(Derived):
    """What ``parse(strings)`` makes of every vector of strings."""

    def __init__(self, source: Dataset, types: list, shapes: list[Dims],
                 parse: Callable[[Any], Element]) -> None:
        super().__init__(source, types, shapes)
        self._parse = parse

    def _pass(self, run: Run) -> Iterator[Element]:
        return map(self._parsed, self.source.iterate(run))

    def _parsed(self, element: Element) -> Element:
        return self._parse(*element)

    def cardinality(self) -> int:
        """As many as the source has."""
        return self.source.cardinality()


def _sparse_variant(parts: tuple) -> np.ndarray:
    """Indices, values and shape as three variants."""
    made = np.empty(3, object)
    for i, part in enumerate(parts):
        made[i] = part
    return made


@kernel("ParseExampleDataset", "ParseExampleDatasetV2", "ExperimentalParseExampleDataset",
        device="CPU")
def _parse_example_dataset(node: KernelNode) -> Callable:
    """Elements have a component for each key, in the order of the keys."""
    about, features = components(node), Features(node)
    keys = [key for kind in ("sparse", "dense", "ragged")
            for key in keys_of(node.attr(f"{kind}_keys"))]
    order = np.argsort(keys, kind="stable").tolist()

    def make(source: Dataset, calls: Any, *defaults: Any) -> Dataset:
        features.check(defaults)

        def parse(serialized: Any) -> Element:
            if np.ndim(serialized) != 1:
                raise invalid("Input dataset must produce vectors of serialized examples")
            sparse, dense, ragged = features.parse(flat(serialized), (), keys, defaults)
            found = [*map(_sparse_variant, sparse), *dense, *[
                RaggedValue([row_splits(counts, kind.np)], values)
                for (values, counts), kind in zip(ragged, features.splits, strict=True)]]
            return tuple(found[i] for i in order)

        return ExampleDataset(source, *about, parse)

    return make
