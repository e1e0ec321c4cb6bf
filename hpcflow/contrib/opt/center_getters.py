"""Custom getters that make local variables of the trainable ones, with common ones beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.graph.graph import device
from hpcflow.graph.keys import GraphKeys
from hpcflow.ops.state.partitioned import PartitionedVariable
from hpcflow.ops.state.variables import Variable

_CENTER = "global_center_variable"


class _CenterGetter:
    """Makes trainable variables local to the worker, on `worker_device`, with a center each."""

    def __init__(self, worker_device: Any) -> None:
        self._worker_device = worker_device
        self._global_map: dict[Any, Any] = {}

    def __call__(self, getter: Callable, name: str, trainable: bool = True,
                 collections: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return the variable, or the local one in its place."""
        if not trainable:
            local = GraphKeys.LOCAL_VARIABLES in (collections or ())
            with device(self._worker_device if local else None):
                return getter(name, *args, trainable=False, collections=collections, **kwargs)
        var = self._local(getter, name, True, *args, **kwargs)
        if kwargs.get("reuse") is not True:
            self._made(var, getter, name, *args, **kwargs)
        return var

    def _local(self, getter: Callable, name: str, trainable: bool, *args: Any,
               **kwargs: Any) -> Any:
        with device(self._worker_device):
            return getter(name, *args, trainable=trainable,
                          collections=[GraphKeys.LOCAL_VARIABLES], **kwargs)

    def _made(self, var: Any, getter: Callable, name: str, *args: Any, **kwargs: Any) -> None:
        """Make what belongs to the local variable."""
        center = getter(f"{_CENTER}/{name}", *args, trainable=False,
                        collections=[GraphKeys.GLOBAL_VARIABLES], **kwargs)
        self._global_map.update(_parts(var, center))


def _parts(var: Any, other: Any) -> Any:
    """Pairs of the parts of two variables."""
    if not isinstance(var, PartitionedVariable):
        return [(var, other)]
    return list(zip(list(var), list(other), strict=True))


class ElasticAverageCustomGetter(_CenterGetter):
    """The custom getter for :class:`ElasticAverageOptimizer`; `worker_device` is that of the local
    variables. A local copy of each center is what the worker has last seen of it."""

    def __init__(self, worker_device: Any) -> None:
        super().__init__(worker_device)
        self._local_map: dict[Any, Any] = {}

    def _made(self, var: Any, getter: Callable, name: str, *args: Any, **kwargs: Any) -> None:
        super()._made(var, getter, name, *args, **kwargs)
        seen = self._local(getter, f"local_center_variable/{name}", False, *args, **kwargs)
        self._local_map.update(_parts(var, seen))


class AGNCustomGetter(_CenterGetter):
    """The custom getter for :class:`AGNOptimizer`; `worker_device` is that of the local variables
    and of the sums of their gradients."""

    def __init__(self, worker_device: Any) -> None:
        super().__init__(worker_device)
        self._grad_map: dict[Any, Any] = {}

    def _made(self, var: Any, getter: Callable, name: str, *args: Any, **kwargs: Any) -> None:
        super()._made(var, getter, name, *args, **kwargs)
        sums = self._local(getter, f"grad_variable/{name}", False, *args, **kwargs)
        self._grad_map.update(_parts(var, sums))


class ModelAverageCustomGetter(_CenterGetter):
    """The custom getter for :class:`ModelAverageOptimizer`; `worker_device` is that of the local
    variables. Centers begin at their values."""

    @property
    def _local_2_global(self) -> dict[Any, Any]:
        return self._global_map

    def _made(self, var: Any, getter: Callable, name: str, *args: Any, **kwargs: Any) -> None:
        self._global_map[var] = Variable(
            var.initialized_value(), name=f"{_CENTER}/{name}", trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES])
