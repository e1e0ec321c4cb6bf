"""Names for the kinds of values that functions of the graph API take in many places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from hpcflow.dtypes import DType, DTypeLike
from hpcflow.shapes import Dimension, TensorShape

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.device_spec import DeviceSpec
    from hpcflow.graph.graph import Graph
    from hpcflow.graph.indexed_slices import IndexedSlices
    from hpcflow.graph.operation import Operation, Tensor
    from hpcflow.graph.sparse_tensor import SparseTensor, SparseTensorValue


class GraphElement(Protocol):
    """An object that stands for a tensor of its graph, as variables do."""

    def _as_graph_element(self) -> Any: ...


class ConvertsToTensor(Protocol):
    """An object that makes its tensor itself, such as a variable in several parts."""

    def _as_tensor(self, dtype: DTypeLike | None = None, name: str | None = None,
                   as_ref: bool = False) -> Tensor: ...


class SupportsArray(Protocol):
    """An object that NumPy can convert to an array."""

    def __array__(self) -> np.ndarray: ...


class TensorHandle(Protocol):
    """A tensor, or a variable in the place of one: it has a name, a dtype and a static shape."""

    @property
    def name(self) -> str:
        """The name in the graph."""

    @property
    def dtype(self) -> DType:
        """The element type."""

    @property
    def graph(self) -> Graph:
        """The graph that holds it."""

    @property
    def op(self) -> Operation:
        """The operation that produces it."""

    @property
    def shape(self) -> TensorShape:
        """The static shape, as far as it is known."""

    def get_shape(self) -> TensorShape:
        """Return the static shape, as far as it is known."""


class SessionLike(Protocol):
    """Runs steps of a graph: a session, or a wrapper around one."""

    @property
    def graph(self) -> Any:
        """The graph of the session; None once some wrappers are closed."""

    def run(self, fetches: Any, feed_dict: Feeds | None = None, options: Message | None = None,
            run_metadata: Message | None = None) -> Any:
        """Run a step and return the values of `fetches`."""


#: A number of Python or NumPy.
Number: TypeAlias = int | float | complex | np.number
#: A single value that is no tensor.
Scalar: TypeAlias = Number | np.generic | str | bytes
#: What `convert_to_tensor` takes: see there.
TensorLike: TypeAlias = (
    "Tensor | GraphElement | ConvertsToTensor | np.ndarray | Scalar | Sequence[Any]"
    " | SupportsArray | TensorShape | Dimension")
#: A flag that is known when the graph is built, or a boolean tensor.
BoolLike: TypeAlias = "bool | int | np.bool_ | Tensor | GraphElement"
#: Numbers of dimensions: one, several, or a tensor of them.
AxisLike: TypeAlias = "int | np.integer | Sequence[int] | np.ndarray | Tensor"
#: One whole number for all dimensions, or one for each.
Sizes: TypeAlias = int | Sequence[int]
#: What stands for an operation where one is asked for.
OperationLike: TypeAlias = "Operation | Tensor | GraphElement | SparseTensor | IndexedSlices"
#: A sparse tensor, or the value of one.
SparseTensorLike: TypeAlias = "SparseTensor | SparseTensorValue"
#: A tensor, or rows of one, as gradients are.
Gradient: TypeAlias = "Tensor | IndexedSlices"
#: Tensors in lists, tuples, namedtuples and dicts, as recurrent states and elements of data sets.
Nest: TypeAlias = "TensorLike | SparseTensor | Sequence[Any] | Mapping[Any, Any]"
#: Fetches of a step: an element of the graph, its name, or a nest of these.
Fetches: TypeAlias = "OperationLike | str | Sequence[Any] | Mapping[Any, Any]"
#: Values for tensors, which may be given by name.
Feeds: TypeAlias = Mapping[Any, Any]
#: A number that a schedule may compute: a tensor, or a function of no arguments that makes one.
Hyperparameter: TypeAlias = "TensorLike | Callable[[], Any]"
#: The names of the collections that something is added to.
Collections: TypeAlias = str | Sequence[str]
#: A function of one tensor, as activations and regularizers are.
TensorFunction: TypeAlias = "Callable[[Any], Any]"
#: What makes the first value of a variable: a function of shape and dtype, a class of initializers,
#: or the value itself.
InitializerLike: TypeAlias = "Callable[..., Any] | TensorLike"
#: A thing of Keras by its name, its configuration, or itself (a function or a callable object).
Identifier: TypeAlias = "str | Mapping[str, Any] | Callable[..., Any]"
#: A device by its name or specification, or a function of an operation that returns the name.
DeviceLike: TypeAlias = "str | DeviceSpec | Callable[[Any], Any]"
