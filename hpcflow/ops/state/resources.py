"""Resources that sessions make before their first step (``python.ops.resources``)."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.graph import get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Operation
from hpcflow.ops.common.grouping import group


def shared_resources() -> list[Any]:
    """Return what the collection of resources that tasks share has."""
    return get_collection(GraphKeys.RESOURCES)


def local_resources() -> list[Any]:
    """Return what the collection of each task's own resources has."""
    return get_collection(GraphKeys.LOCAL_RESOURCES)


def initialize_resources(resource_list: list[Any], name: str = "init") -> Operation:
    """Return an operation that makes all resources of a list."""
    return group(*[resource.create for resource in resource_list], name=name)
