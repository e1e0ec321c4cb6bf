"""SaveSliceInfo: which part of a larger variable a variable is; names moved between scopes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.message import Message


class SaveSliceInfo:
    """Describes a variable as the slice ``[offset, offset + shape)`` of a logical variable.

    Args:
        full_name: name of the logical variable, under which checkpoints hold it.
        full_shape: its shape.
        var_offset: where the slice begins in each dimension.
        var_shape: the shape of the slice.
        save_slice_info_def: take all of these from a ``SaveSliceInfoDef`` protobuf.
        import_scope: with the protobuf: prefix of the name.
    """

    def __init__(self, full_name: str | None = None, full_shape: Any = None, var_offset: Any = None,
                 var_shape: Any = None, save_slice_info_def: Message | None = None,
                 import_scope: str | None = None) -> None:
        if save_slice_info_def is not None:
            full_name = prepend_scope(save_slice_info_def.full_name, import_scope)
            full_shape = save_slice_info_def.full_shape
            var_offset = save_slice_info_def.var_offset
            var_shape = save_slice_info_def.var_shape
        self.full_name = full_name
        self.full_shape = [int(d) for d in full_shape or ()]
        self.var_offset = [int(d) for d in var_offset or ()]
        self.var_shape = [int(d) for d in var_shape or ()]

    @property
    def spec(self) -> str:
        """The slice as text: the full shape, then ``offset,length`` of every dimension."""
        full = " ".join(str(d) for d in self.full_shape)
        parts = ":".join(f"{o},{s}" for o, s in zip(self.var_offset, self.var_shape))
        return f"{full} {parts}"

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Return the ``SaveSliceInfoDef``, or None if the name is outside `export_scope`."""
        from tensorboard.compat.proto import variable_pb2

        name = self.full_name or ""
        if export_scope is not None and not name.startswith(export_scope):
            return None
        return variable_pb2.SaveSliceInfoDef(
            full_name=strip_scope(name, export_scope), full_shape=self.full_shape,
            var_offset=self.var_offset, var_shape=self.var_shape)


def strip_scope(name: str, export_scope: str | None) -> str:
    """`name` without the scope at its start."""
    if not export_scope:
        return name
    return re.sub(rf"^{re.escape(export_scope.rstrip('/'))}/", "", name)


def prepend_scope(name: str, import_scope: str | None) -> str:
    """`name` inside the scope."""
    return f"{import_scope.rstrip('/')}/{name}" if import_scope else name
