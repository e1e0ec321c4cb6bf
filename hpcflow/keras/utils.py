"""Small helpers for programs with models."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.base.late_names import named_otherwise
from hpcflow.keras.enqueuers import GeneratorEnqueuer, OrderedEnqueuer, SequenceEnqueuer
from hpcflow.keras.function_files import func_dump, func_load
from hpcflow.keras.lookup import custom_object_scope, get_custom_objects, instance, serialized
from hpcflow.keras.progress import Progbar
from hpcflow.keras.summaries import print_summary

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

CustomObjectScope = custom_object_scope


def to_categorical(y: TensorLike, num_classes: int | None = None,
                   dtype: str = "float32") -> np.ndarray:
    """Return a row with a one for each number of a class; as many columns as classes."""
    y = np.array(y, dtype="int")
    shape = y.shape[:-1] if y.ndim > 1 and y.shape[-1] == 1 else y.shape
    flat = y.ravel()
    count = int(flat.max()) + 1 if num_classes is None else num_classes
    rows = np.zeros((flat.size, count), dtype)
    rows[np.arange(flat.size), flat] = 1
    return rows.reshape(*shape, count)


def normalize(x: np.ndarray, axis: int = -1, order: int = 2) -> np.ndarray:
    """Return `x` over its norms along `axis`; what has norm 0 is kept."""
    norms = np.atleast_1d(np.linalg.norm(x, order, axis))
    norms[norms == 0] = 1
    return x / np.expand_dims(norms, axis)


class Sequence:
    """Batches by number: a class of one's own defines ``__getitem__`` and ``__len__``."""

    def __getitem__(self, index: int) -> Any:
        """Return a batch."""
        raise NotImplementedError(f"{type(self).__name__} does not say its batches")

    def __len__(self) -> int:
        """Return the number of batches."""
        raise NotImplementedError(f"{type(self).__name__} does not say its length")

    def on_epoch_end(self) -> None:
        """Called after an epoch."""

    def __iter__(self) -> Any:
        """Go over the batches."""
        return (self[n] for n in range(len(self)))


def multi_gpu_model(model: Any, gpus: Any, **options: Any) -> Any:
    """Not supported: replicas belong to ranks; see ``hpcflow.mpi.DistributedOptimizer``.

    Raises ``NotImplementedError``.
    """
    raise NotImplementedError("models are replicated over ranks, not over the GPUs of a process; "
                              "wrap the optimizer by hpcflow.mpi.DistributedOptimizer")


def get_source_inputs(tensor: Any, layer: Any = None, node_index: Any = None) -> list:
    """Return the tensors of inputs that a tensor is made of by layers; the tensor itself if it is
    made by none."""
    history = getattr(tensor, "_keras_history", None)
    if history is None:
        return [tensor]
    if not node_index:
        layer, node_index = history.layer, history.node_index
    node = layer.inbound_nodes[node_index]
    if not node.sources:
        return list(node.outputs)
    found = [t for source in node.sources for t in get_source_inputs(source)]
    return list({id(t): t for t in found}.values())


def serialize_keras_object(instance: Any) -> Any:
    """Return an object's name, or a dict of its class and configuration."""
    return serialized(instance)


def deserialize_keras_object(identifier: Any, module_objects: Mapping[str, Any] | None = None,
                             custom_objects: Mapping[str, Any] | None = None,
                             printable_module_name: str = "object") -> Any:
    """Return the object for a name, or for a dict of a class and its configuration.

    Raises ``ValueError`` for a name that none of the tables has.
    """
    table = {**(module_objects or {}), **(custom_objects or {})}
    if isinstance(identifier, str):
        table = {**table, **get_custom_objects()}
        if identifier not in table:
            raise ValueError(f"Unknown {printable_module_name}: {identifier}")
        return table[identifier]
    return instance(table, identifier, printable_module_name)


def get_file(fname: str, origin: str = "", untar: bool = False, md5_hash: str | None = None,
             file_hash: str | None = None, cache_subdir: str = "datasets",
             hash_algorithm: str = "auto", extract: bool = False, archive_format: Any = "auto",
             cache_dir: str | None = None) -> str:
    """Return the path of a file that is there: `fname` itself, or below
    ``cache_dir/cache_subdir`` (``~/.keras/datasets``), or what a ``file:`` origin names.

    Raises ``FileNotFoundError`` where it is not there, since nothing is downloaded, and
    ``ValueError`` for another hash (MD5 or SHA-256, by its length).
    """
    kept = os.path.join(os.path.expanduser(cache_dir or "~/.keras"), cache_subdir, fname)
    for path in (fname, kept, origin.removeprefix("file://")):
        if path and os.path.exists(path):
            _check_hash(path, file_hash or md5_hash)
            return path
    raise FileNotFoundError(f"{kept} is not there, and nothing is downloaded: put {origin or fname}"
                            " there")


def _check_hash(path: str, expected: str | None) -> None:
    if expected is None or os.path.isdir(path):
        return
    kind = "sha256" if len(expected) == 64 else "md5"
    with open(path, "rb") as file:
        found = hashlib.new(kind, file.read()).hexdigest()
    if found != expected:
        raise ValueError(f"{path} has the {kind} {found}, not {expected}")


def plot_model(model: Any, to_file: str = "model.png", **options: Any) -> None:
    """Not supported: :func:`print_summary` prints the layers, TensorBoard shows the graph.

    Raises ``NotImplementedError``.
    """
    raise NotImplementedError("models are not drawn; use model.summary(), or TensorBoard on "
                              "hpcflow.summary.FileWriter(logdir, graph)")


__all__ = ["CustomObjectScope", "GeneratorEnqueuer", "OrderedEnqueuer", "Progbar", "Sequence",
           "SequenceEnqueuer", "custom_object_scope", "deserialize_keras_object", "func_dump",
           "func_load", "get_custom_objects", "get_file", "get_source_inputs", "multi_gpu_model",
           "normalize", "plot_model", "print_summary", "serialize_keras_object", "to_categorical"]


__getattr__ = named_otherwise(__name__)
