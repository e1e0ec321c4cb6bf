"""TensorHandle: what fetching a session handle gives."""

from __future__ import annotations

import weakref
from typing import Any

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.graph.graph import Graph
from hpcflow.graph.likes import SessionLike
from hpcflow.graph.operation import Tensor
from hpcflow.host.tuning import runtime as tuning
from hpcflow.ops.flow.session_tensors import delete_session_tensor, get_session_tensor

# session -> handles that nobody refers to any more
_dead: weakref.WeakKeyDictionary[Any, list[bytes]] = weakref.WeakKeyDictionary()
# graph -> (what, device, dtype) -> (placeholder, tensor or operation)
_ops: weakref.WeakKeyDictionary[Graph, dict] = weakref.WeakKeyDictionary()


class TensorHandle(bytes):
    """A tensor that a session keeps. The bytes are the handle, to be fed.

    When nothing refers to the handle any more the session forgets the tensor, some steps later,
    unless the bytes were taken by :meth:`get_raw_handle`.
    """

    _session: Any = None
    _dtype: DType = dtypes.float32
    _is_kept = True

    @classmethod
    def of(cls, value: bytes, dtype: DType, session: SessionLike) -> TensorHandle:
        """The handle of a tensor of `dtype` that `session` keeps."""
        handle = cls(value)
        handle._session, handle._dtype, handle._is_kept = session, dtype, False
        return handle

    @property
    def handle(self) -> str:
        """The handle as text, which can be fed too."""
        return str(self)

    @property
    def dtype(self) -> DType:
        """The element type of the tensor."""
        return self._dtype

    def eval(self) -> Any:
        """Return the value of the tensor."""
        if self._session is None:
            raise TypeError("This handle belongs to no session")
        holder, reader = _shared_op(self._session.graph, "get", self, self._dtype)
        return self._session.run(reader, {holder: bytes(self)})

    def delete(self) -> None:
        """Let the session forget the tensor. Raises ``InvalidArgumentError`` if it has already."""
        self._is_kept = True
        _delete(self._session, bytes(self))

    def get_raw_handle(self) -> bytes:
        """Return the handle as bytes; the tensor is then kept until it is deleted explicitly."""
        self._is_kept = True
        return bytes(self)

    def __str__(self) -> str:
        return self.decode()

    def __del__(self) -> None:
        if not self._is_kept:
            _dead.setdefault(self._session, []).append(bytes(self))


def handle_result(session: Any, tensor: Tensor, value: bytes) -> Any:
    """Return the result of fetching the output of GetSessionHandle."""
    if session is None:
        return value
    dead = _dead.get(session, [])
    if len(dead) > tuning.DEAD_HANDLES:
        doomed, dead[:] = dead[:], []
        for handle in doomed:
            _delete(session, handle)
    return TensorHandle.of(value, tensor.op._inputs[0].dtype.base_dtype, session)


def _delete(session: SessionLike, handle: bytes) -> None:
    holder, deleter = _shared_op(session.graph, "delete", handle, dtypes.string)
    session.run(deleter, {holder: handle})


def _shared_op(graph: Graph, what: str, handle: bytes, dtype: DType) -> tuple:
    """The placeholder and the op for handles of this device and type, made once per graph."""
    known = _ops.setdefault(graph, {})
    key = (what, handle.rpartition(b";")[2], dtype)
    if key not in known:
        with graph.as_default(), graph.control_dependencies(None), graph.name_scope(None):
            known[key] = (get_session_tensor(handle, dtype) if what == "get"
                          else delete_session_tensor(handle))
    return known[key]
