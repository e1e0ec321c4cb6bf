"""Tables of what a graph finds by names: operations, tensors and collections."""

from __future__ import annotations

import re
from typing import Any

from hpcflow.graph.operation import Operation, Tensor


class Elements:
    """Operations and tensors by their names."""

    def __init__(self) -> None:
        super().__init__()
        self._ops: list[Operation] = []
        self._nodes_by_name: dict[str, Operation] = {}

    def get_operations(self) -> list[Operation]:
        """Return the operations in the order they were added."""
        return list(self._ops)

    def get_operation_by_name(self, name: str) -> Operation:
        """Return the operation called `name`; ``KeyError`` if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=False)

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Return the tensor called `name` ("op:index"); ``KeyError`` if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_operation=False)

    def as_graph_element(self, obj: Any, allow_tensor: bool = True,
                         allow_operation: bool = True) -> Any:
        """Return the Tensor or Operation that `obj` (a name or an element) stands for.

        Raises ``TypeError``, ``ValueError`` or ``KeyError`` saying what does not fit.
        """
        if not allow_tensor and not allow_operation:
            raise ValueError("allow_tensor and allow_operation can't both be False.")
        wanted = " or ".join(["Tensor"] * allow_tensor + ["Operation"] * allow_operation)
        convert = getattr(obj, "_as_graph_element", None)
        if convert is not None:
            obj = convert()
        if isinstance(obj, bytes):
            obj = obj.decode()
        if isinstance(obj, str):
            return self._element_by_name(obj, allow_tensor, allow_operation)
        if (isinstance(obj, Tensor) and allow_tensor) or (isinstance(obj, Operation) and (
                allow_operation)):
            if obj.graph is not self:
                kind = "Tensor" if isinstance(obj, Tensor) else "Operation"
                raise ValueError(f"{kind} {obj!r} is not an element of this graph.")
            return obj
        raise TypeError(f"Can not convert a {type(obj).__name__} into a {wanted}.")

    def _element_by_name(self, name: str, allow_tensor: bool, allow_operation: bool) -> Any:
        if ":" in name:
            if not allow_tensor:
                raise ValueError(f"Name {name!r} appears to refer to a Tensor, not a Operation.")
            op_name, _, index = name.rpartition(":")
            if not index.isdigit() or ":" in op_name:
                raise ValueError(f"The name {name!r} looks a like a Tensor name, but is not a "
                                 "valid one. Tensor names must be of the form "
                                 '"<op_name>:<output_index>".')
            return self._output_by_name(name, op_name, int(index))
        op = self._nodes_by_name.get(name)
        if not allow_operation:
            looks = "refers to an" if op is not None else "looks like an (invalid)"
            kind = "Operation" if op is not None else "Operation name"
            raise ValueError(f"The name {name!r} {looks} {kind}, not a Tensor. Tensor names must "
                             'be of the form "<op_name>:<output_index>".')
        if op is None:
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph."
                           + self._similar(name))
        return op

    def _output_by_name(self, name: str, op_name: str, index: int) -> Tensor:
        op = self._nodes_by_name.get(op_name)
        if op is None:
            raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. The "
                           f"operation, {op_name!r}, does not exist in the graph."
                           + self._similar(op_name))
        if index >= len(op.outputs):
            raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. The "
                           f"operation, {op_name!r}, exists but only has {len(op.outputs)} "
                           "outputs.")
        return op.outputs[index]

    def _similar(self, name: str) -> str:
        import difflib

        near = difflib.get_close_matches(name, list(self._nodes_by_name), 3)
        return f" Similar names: {', '.join(near)}." if near else ""


class Collections:
    """Lists of values under names."""

    def __init__(self) -> None:
        super().__init__()
        self._collections: dict[Any, list] = {}

    def _check_not_finalized(self) -> None:
        raise NotImplementedError

    def add_to_collection(self, name: str, value: Any) -> None:
        """Append `value` to the collection `name`."""
        self._check_not_finalized()
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: str) -> None:
        """Append `value` to each collection in `names` (one name or several)."""
        names = (names,) if isinstance(names, str) else dict.fromkeys(names)
        for name in names:
            self.add_to_collection(name, value)

    def get_collection(self, name: str, scope: str | None = None) -> list:
        """Return a copy of a collection, filtered by `scope` (a regex matched at the start)."""
        items = self._collections.get(name, [])
        if scope is None:
            return list(items)
        regex = re.compile(scope)
        return [i for i in items if hasattr(i, "name") and regex.match(i.name)]

    def get_collection_ref(self, name: str) -> list:
        """Return the collection itself, made empty if it does not exist."""
        return self._collections.setdefault(name, [])

    @property
    def collections(self) -> list[str]:
        """The names of all collections."""
        return self.get_all_collection_keys()

    def get_all_collection_keys(self) -> list[str]:
        """Return the names of all collections."""
        return [k for k in self._collections if isinstance(k, str)]

    def clear_collection(self, name: str) -> None:
        """Remove everything from a collection."""
        self._check_not_finalized()
        self._collections.pop(name, None)
