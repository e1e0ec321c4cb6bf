"""Resources that sessions make before their first step (``python.ops.resources``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import constant_array
from hpcflow.graph.graph import get_collection, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.grouping import group


def shared_resources() -> list[Any]:
    """Return what the collection of resources that tasks share has."""
    return get_collection(GraphKeys.RESOURCES)


def local_resources() -> list[Any]:
    """Return what the collection of each task's own resources has."""
    return get_collection(GraphKeys.LOCAL_RESOURCES)


def report_uninitialized_resources(resource_list: list[Any] | None = None,
                                   name: str = "report_uninitialized_resources") -> Tensor:
    """Return a vector of the names of the resources that are not made yet.

    `resource_list` None: those of both collections.
    """
    given = shared_resources() + local_resources() if resource_list is None else resource_list
    with name_scope(name):
        if not given:
            return constant_array(np.zeros(0, object), dtypes.string)
        missing = raw_ops.LogicalNot(raw_ops.Pack([each.is_initialized for each in given]))
        names = constant_array(np.array([each.handle.name.encode() for each in given], object),
                               dtypes.string)
        return raw_ops.Gather(names, raw_ops.Squeeze(raw_ops.Where(missing), squeeze_dims=[1]))


def initialize_resources(resource_list: list[Any], name: str = "init") -> Operation:
    """Return an operation that makes all resources of a list."""
    return group(*[resource.create for resource in resource_list], name=name)
