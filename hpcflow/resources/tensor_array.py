"""An array of tensors that lives as long as a step.

Every element is written once, and by default can be read once. The array of the gradients of its
elements adds up what is written to an element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.dtypes import DType, c_name
from hpcflow.errors import InvalidArgumentError, UnimplementedError
from hpcflow.resources.handles import StepHandle

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

_WRITTEN, _READ, _CLEARED = 1, 2, 4

Dims = tuple | None


class TensorArray(StepHandle):
    """The elements, and what is known of their shapes.

    Args:
        name: for messages.
        dtype: of all elements.
        size: number of elements.
        dims: the shape that all elements have, as far as it is known.
        zeros: ``zeros(shape)`` makes the value of an element that was not written.
        dynamic: writing beyond the end makes the array longer.
        clear_after_read: an element is dropped when it was read.
        identical: all elements have the shape of the first that is written.
        is_gradient: writes to an element are added up.
    """

    __slots__ = ("element_type", "dims", "zeros", "dynamic", "clear_after_read",
                 "identical", "is_gradient", "values", "shapes", "states", "closed", "gradients",
                 "whole", "__weakref__")  # fmt: skip

    def __init__(self, name: str, dtype: DType, size: int, dims: Dims,
                 zeros: Callable[[tuple], Any], dynamic: bool = False,
                 clear_after_read: bool = True, identical: bool = False,
                 is_gradient: bool = False) -> None:
        if size < 0:
            raise _invalid(f"TensorArray {name}: the size must be at least 0, but is {size}")
        super().__init__(name)
        self.element_type = dtype
        self.dims = dims
        self.zeros = zeros
        self.dynamic = dynamic
        self.clear_after_read = clear_after_read
        self.identical = identical
        self.is_gradient = is_gradient
        self.values: list[Any] = [None] * size
        self.shapes: list[Dims] = [None] * size
        self.states = bytearray(size)
        self.closed = False
        self.gradients: dict[str, TensorArray] = {}
        self.whole: Any = None  # if its rows are the elements, an array

    # ------------------------------------------------------------ whole array

    def size(self) -> int:
        """The number of elements."""
        self._check_open()
        return len(self.values)

    def resize(self, size: int) -> None:
        """Make a dynamic array at least `size` long."""
        more = size - len(self.values)
        if more > 0:
            self.values.extend([None] * more)
            self.shapes.extend([None] * more)
            self.states.extend(bytes(more))

    def close(self) -> None:
        """Drop the elements; the array cannot be used any more."""
        self.closed = True
        self.values.clear()
        self.whole = None
        for array in self.gradients.values():
            array.close()

    release = close

    def gradient(self, source: str) -> TensorArray:
        """The array of gradients for the computation `source`, made on first use.

        From then on this array cannot grow.
        """
        self._check_open()
        found = self.gradients.get(source)
        if found is None:
            self.dynamic = False
            # An element that was added to several times has as many second derivatives.
            found = TensorArray(f"{self.name}@{source}", self.element_type, len(self.values),
                                self.dims, self.zeros, clear_after_read=not self.is_gradient,
                                identical=self.identical, is_gradient=True)
            found.shapes = list(self.shapes)
            self.gradients[source] = found
        return found

    def check_dtype(self, dtype: DType, doing: str) -> None:
        """Raise if the elements are not of `dtype`."""
        if dtype is not self.element_type:
            raise _invalid(f"TensorArray dtype is {c_name(self.element_type)} but Op {doing} dtype "
                           f"{c_name(dtype)}.")

    # ------------------------------------------------------------ elements

    def write(self, index: int, value: np.ndarray | np.generic | bytes) -> None:
        """Set element `index`; in an array of gradients add to it."""
        self._check_open()
        self.whole = None
        if not 0 <= index < len(self.values):
            if index < 0 or not self.dynamic:
                raise _invalid(f"TensorArray {self.name}: Tried to write to index {index} but "
                               f"array is not resizeable and size is: {len(self.values)}")
            self.resize(index + 1)
        shape = getattr(value, "shape", ())
        self._check_shape(index, shape)
        state = self.states[index]
        if state:
            value = self._next_value(index, state, value, shape)
        self.values[index] = value
        self.shapes[index] = shape
        self.states[index] = state | _WRITTEN

    def _next_value(self, index: int, state: int, value: TensorLike, shape: tuple) -> Any:
        """Return the sum where gradients are added up; raise an error elsewhere."""
        if state & _READ:
            raise _invalid(f"TensorArray {self.name}: Could not write to TensorArray index {index} "
                           "because it has already been read.")
        if not self.is_gradient:
            raise _invalid(f"TensorArray {self.name}: Could not write to TensorArray index {index} "
                           "because it has already been written to.")
        if shape != self.shapes[index]:
            raise _invalid(f"TensorArray {self.name}: Could not aggregate to TensorArray index "
                           f"{index} because the existing shape is {_show(self.shapes[index])} but "
                           f"the new input shape is {_show(shape)}.")
        return self.values[index] + value

    def _check_shape(self, index: int, shape: tuple) -> None:
        dims = self.dims
        if dims == shape:
            return
        if not _fits(shape, dims):
            raise _invalid(f"TensorArray {self.name}: Could not write to TensorArray index {index} "
                           f"because the value shape is {_show(shape)} which is incompatible with "
                           f"the TensorArray's inferred element shape: {_show(dims)} (consider "
                           "setting infer_shape=False).")
        if self.identical:
            self.dims = shape

    def read(self, index: int) -> Any:
        """Element `index`; what was never written is zeros where the shape is known."""
        self._check_open()
        if not 0 <= index < len(self.values):
            raise _invalid(f"TensorArray {self.name}: Tried to read from index {index} but array "
                           f"size is: {len(self.values)}")
        state = self.states[index]
        if state & _CLEARED:
            raise _invalid(f"TensorArray {self.name}: Could not read index {index} twice because "
                           "it was cleared after a previous read (perhaps try setting "
                           "clear_after_read = false?)")
        value = self.values[index] if state & _WRITTEN else self._unwritten(index)
        if self.clear_after_read:
            self.values[index] = None
            state |= _CLEARED
            if index + 1 == len(self.values):
                self.whole = None
        self.states[index] = state | _READ
        return value

    def peek(self, start: int, count: int) -> list[Any]:
        """Up to `count` elements from `start` that could be read now; this is no reading."""
        stop = min(start + count, len(self.values))
        if self.states.count(_WRITTEN, start, stop) == stop - start:
            return self.values[start:stop]
        for index in range(start, stop):
            if self.states[index] & (_WRITTEN | _CLEARED) != _WRITTEN:
                stop = index
                break
        return self.values[start:stop]

    def peek_rows(self, start: int, count: int) -> Any:
        """As `peek`; the rows of an array, where they are the elements."""
        found = self.peek(start, count)
        return found if self.whole is None else self.whole[start : start + len(found)]

    def write_rows(self, places: list[int], value: np.ndarray) -> None:
        """Set the elements `places` to the rows of `value`."""
        count, is_whole = len(places), (type(value) is np.ndarray and not self.is_gradient
                                        and places == [*range(len(places))])
        if is_whole and value.ndim and 0 < count == len(value) <= len(self.values) and (
                not any(self.states) and not self.closed):
            shape = value.shape[1:]
            self._check_shape(0, shape)
            self.values[:count] = value
            self.shapes[:count] = [shape] * count
            self.states[:count] = bytes([_WRITTEN]) * count
        else:
            for place, row in zip(places, value, strict=True):
                self.write(place, row)
        if is_whole:
            self.whole = value

    def take_rows(self, start: int, count: int) -> None:
        """Count the elements from `start`, which can be read, as read."""
        stop = start + count
        state = _WRITTEN | _READ
        if self.clear_after_read:
            self.values[start:stop] = [None] * count
            state |= _CLEARED
            if stop == len(self.values):
                self.whole = None
        self.states[start:stop] = bytes([state]) * count

    def _unwritten(self, index: int) -> Any:
        shape = self.dims if self.shapes[index] is None else self.shapes[index]
        if shape is None or None in shape:
            raise _invalid(
                f"TensorArray {self.name}: Could not read from TensorArray index {index}.  "
                f"Furthermore, the element shape is not fully defined: {_show(shape)}.  It is "
                "possible you are working with a resizeable TensorArray and stop_gradients is not "
                "allowing the gradients to be written.  If you set the full element_shape property "
                "on the forward TensorArray, the proper all-zeros tensor will be returned instead "
                "of incurring this error.")
        return self.zeros(shape)

    # ------------------------------------------------------------ many elements

    def read_many(self, indices: list[int], dims: Dims) -> list[Any]:
        """The elements `indices`, all of one shape, which must fit `dims`."""
        values = [self.read(i) for i in indices]
        shapes = [getattr(v, "shape", ()) for v in values]
        for index, shape in zip(indices, shapes, strict=True):
            if shape != shapes[0]:
                raise _invalid(f"TensorArray has inconsistent shapes.  Index {indices[0]} has "
                               f"shape: {_show(shapes[0])} but index {index} has shape: "
                               f"{_show(shape)}")
        if values and not _fits(shapes[0], dims):
            raise _invalid(f"TensorArray was passed element_shape {_show(dims)} which does not "
                           f"match the Tensor at index {indices[0]}: {_show(shapes[0])}")
        return values

    def empty_shape(self, dims: Dims, what: str) -> tuple:
        """The element shape of an array without elements; an error where it is not known."""
        if dims is None or None in dims:
            dims = self.dims if dims is None else dims
        if dims is None or None in dims:
            raise UnimplementedError(
                None, None, f"TensorArray has size zero, but element shape {_show(dims)} is not "
                f"fully defined. Currently only static shapes are supported when {what} zero-size "
                "TensorArrays.")
        return dims

    def _check_open(self) -> None:
        if self.closed:
            raise _invalid(f"TensorArray {self.name} has already been closed.")


def _fits(shape: tuple, dims: Dims) -> bool:
    if dims is None:
        return True
    return len(shape) == len(dims) and all(d is None or d == s for s, d in zip(shape, dims))


def _show(dims: Dims) -> str:
    if dims is None:
        return "<unknown>"
    return "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)
