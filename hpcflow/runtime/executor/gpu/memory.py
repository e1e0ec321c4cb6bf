"""The memory of a GPU: how much of it may be taken, and what is said when there is too little."""

from __future__ import annotations

import socket
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from hpcflow.host.tuning import gpu as tuning
from hpcflow.resources.manager import ResourceManager
from hpcflow.runtime.executor.gpus import GpuOptions

if TYPE_CHECKING:
    from hpcflow.runtime.executor.device import CupyDevice
    from hpcflow.runtime.executor.gpu.streams import Streams


def limit(streams: Streams, options: GpuOptions, owner: object) -> None:
    """Take no more than the fraction of the current GPU's memory; at once all of that, unless it
    is to grow. Without a fraction that of another `owner` holds, as long as it lives."""
    pool, memory = streams.xp.get_default_memory_pool(), streams.memory
    if not options.fraction:
        if memory.limited_by() is None:
            memory.limit = 0
            pool.set_limit(size=0)
        return
    memory.limited_by = weakref.ref(owner)
    pool.set_limit(fraction=options.fraction)
    memory.limit = pool.get_limit()
    memory.share()
    if not options.allow_growth:
        left = pool.get_limit() - pool.total_bytes()
        with suppress(MemoryError):  # others have it: what is needed is asked for when it is
            pool.malloc(max(0, left) // _UNIT * _UNIT)  # and back into the pool
            memory.filled = True


def may_take(streams: Streams) -> int:
    """Bytes of the current GPU that this process may take."""
    return int(streams.memory.limit or streams.device.mem_info[1])


def description(xp: Any, number: int) -> str:
    """One line about GPU `number`; empty if the driver tells nothing."""
    try:
        found = xp.cuda.runtime.getDeviceProperties(number)
        name = found["name"].decode()
        bus = f"{found['pciDomainID']:04x}:{found['pciBusID']:02x}:{found['pciDeviceID']:02x}.0"
        return (f"device: {number}, name: {name}, pci bus id: {bus}, "
                f"compute capability: {found['major']}.{found['minor']}")
    except Exception:  # noqa: BLE001  (every part of CUDA has errors of its own)
        return ""


def identity(xp: Any, number: int) -> str:
    """What tells GPU `number` from all others of the cluster."""
    found = xp.cuda.runtime.getDeviceProperties(number)
    uuid = found.get("uuid")
    return bytes(uuid).hex() if uuid else f"{socket.gethostname()} {description(xp, number)}"


_UNIT = 512  # CuPy takes memory in multiples of so many bytes


class HasGraphs(Protocol):
    """Something that keeps graphs, with pools of their own."""

    def graph_bytes(self) -> int:
        """Bytes that these pools have taken from the GPU."""


class Held:
    """The memory that this process has taken from a GPU: CuPy's pool, and those of graphs."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._noted = 0
        #: Bytes that all pools together may take; 0 for all there are.
        self.limit = 0
        #: Whose limit that is, None for nobody's.
        self.limited_by: Callable[[], object | None] = lambda: None
        #: True while CuPy's pool holds what no step has asked for.
        self.filled = False
        #: What keeps graphs, as long as it lives.
        self.regions: weakref.WeakSet[HasGraphs] = weakref.WeakSet()

    def most(self) -> int:
        """Bytes at most since `forget`: nothing goes back to the GPU without `note`."""
        self.note()
        return self._noted

    def forget(self) -> None:
        """Count from what is held now."""
        self._noted = 0

    def note(self) -> None:
        """What is held now may be the most."""
        taken = self._xp.get_default_memory_pool().total_bytes() + self._of_graphs()
        self._noted = max(self._noted, taken)

    def share(self) -> None:
        """Leave CuPy's pool what the limit allows besides the pools of graphs."""
        if self.limit:
            self._xp.get_default_memory_pool().set_limit(
                size=max(self.limit - self._of_graphs(), 1))

    def _of_graphs(self) -> int:
        return sum(r.graph_bytes() for r in list(self.regions))


def measures(streams: Streams) -> bool:
    """True if CuPy's pool holds what steps have asked for, and no more. What it was filled with is
    given back, so later it does."""
    if not streams.memory.filled:
        return True
    streams.memory.filled = False
    streams.xp.get_default_memory_pool().free_all_blocks()
    return False


def has_room_twice(streams: Streams) -> bool:
    """True if what the steps so far took for their values is there twice, for a graph and for what
    runs without one; gives back what is free."""
    pool = streams.xp.get_default_memory_pool()
    taken = pool.total_bytes() - pool.used_bytes()
    streams.memory.note()
    pool.free_all_blocks()
    return bool(_free(streams.xp, streams.device.mem_info[0]) >= 2 * taken)


def pool_of_its_own(xp: Any) -> Any:
    """A new pool of the current GPU, which takes no more than the default one may still take."""
    pool = xp.cuda.MemoryPool()
    if xp.get_default_memory_pool().get_limit():
        pool.set_limit(size=max(_free(xp, 1 << 62), 1))
    return pool


def _free(xp: Any, free: int) -> int:
    """Of so many free bytes those that the limit allows."""
    pool = xp.get_default_memory_pool()
    most = pool.get_limit()
    return min(free, most - pool.total_bytes()) if most else free


def explain(error: MemoryError, device: CupyDevice) -> None:
    """Add to the message of `error` what lived on the device when it was raised, and give back what
    is free."""
    xp, name, resources = device.xp, device.name, device.resources
    pool = xp.get_default_memory_pool()
    used, held = pool.used_bytes(), pool.total_bytes()
    variables = sorted(_variables(xp, resources), reverse=True)
    total = sum(nbytes for nbytes, _ in variables)
    largest = ", ".join(f"{text} {_size(nbytes)}" for nbytes, text in
                        variables[: tuning.MEMORY_NAMED])
    most = device.streams.memory.limit
    lines = [f"{error}", f"live on {name}: {_size(used)} of {_size(held)} taken from the GPU"
             + (f", of which it may take {_size(most)}" if most else ""),
             f"  {len(variables)} variables of this task: {_size(total)}"
             + (f", the largest: {largest}" if largest else ""),
             f"  values of steps, graphs and other sessions: {_size(max(used - total, 0))}"]
    device.transfers.clear()
    pool.free_all_blocks()
    error.args = ("\n".join(lines),)


def _variables(xp: Any, resources: ResourceManager) -> list[tuple[int, str]]:
    """Bytes and name of the variables that are on a device of `xp`."""
    found = []
    for _, name, state in resources.items("variable"):
        value = getattr(state, "value", None)
        if isinstance(value, xp.ndarray):
            found.append((int(value.nbytes), f"'{name}'"))
    return found


def _size(nbytes: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024  # type: ignore[assignment]
    return f"{nbytes:.4g} GiB"
