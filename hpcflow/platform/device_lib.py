"""The devices of this process, as ``python.client.device_lib`` of 1.x lists them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow.graph.graph import Graph
from hpcflow.runtime.session.session import Session

if TYPE_CHECKING:
    from google.protobuf.message import Message


class DeviceAttributes(NamedTuple):
    """One device: its name in the process, its type, its memory in bytes, the hardware in words,
    and a number that no other device has, nor this one in another process."""

    name: str
    device_type: str
    memory_limit: int
    physical_device_desc: str = ""
    incarnation: int = 0


def list_local_devices(session_config: Message | None = None) -> list[DeviceAttributes]:
    """Return the devices that a session of this process may use."""
    with Session(graph=Graph(), config=session_config) as session:
        return [DeviceAttributes(_local_name(d.name), d.type, _memory(d), d.description,
                                 d.incarnation)
                for d in session.list_devices()]


def _local_name(name: str) -> str:
    return "/" + name.rpartition("/")[2]


def _memory(device: Any) -> int:
    """The machine's memory for CPUs, its own for a GPU."""
    if device.type != "CPU":
        return int(device.memory_limit_bytes)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
