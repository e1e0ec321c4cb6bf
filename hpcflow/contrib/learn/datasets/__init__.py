"""``hpcflow.contrib.learn.datasets``: data sets of local files, as arrays."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.learn.datasets import base, mnist
from hpcflow.contrib.learn.datasets.mnist import load_mnist

__all__ = ["base", "load_dataset", "load_mnist", "mnist"]

__getattr__ = named_otherwise(__name__)


def load_dataset(name: str, **keywords: str) -> base.Datasets:
    """Return the data set of a name: ``"mnist"``, with the arguments of :func:`load_mnist`.

    Raises ``ValueError`` for others.
    """
    if name != "mnist":
        raise ValueError(f"Name of dataset is not found: {name!r}; there is 'mnist', read from "
                         "local files")
    return load_mnist(**keywords)
