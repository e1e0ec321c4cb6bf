"""The memory of a GPU: how much of it may be taken, and what is said when there is too little."""

from __future__ import annotations

import socket
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

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
            memory.limit, memory.grows = 0, True
            pool.set_limit(size=0)
        return
    memory.limited_by = weakref.ref(owner)
    pool.set_limit(fraction=options.fraction)
    memory.limit, memory.grows = pool.get_limit(), options.allow_growth
    if not options.allow_growth:
        left = pool.get_limit() - pool.total_bytes()
        with suppress(MemoryError):  # others have it: what is needed is asked for when it is
            pool.malloc(max(0, left) // _UNIT * _UNIT)  # and back into the pool


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


class Held:
    """The memory that this process has taken from a GPU, by CuPy's pool."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._noted = 0
        #: Bytes that may be taken; 0 for all there are.
        self.limit = 0
        #: False if all that may be taken has been taken at once, and is kept.
        self.grows = True
        #: Whose limit that is, None for nobody's.
        self.limited_by: Callable[[], object | None] = lambda: None

    def most(self) -> int:
        """Bytes at most since `forget`: nothing goes back to the GPU without `note`."""
        self.note()
        return self._noted

    def forget(self) -> None:
        """Count from what is held now."""
        self._noted = 0

    def note(self) -> None:
        """What is held now may be the most."""
        self._noted = max(self._noted, self._xp.get_default_memory_pool().total_bytes())

    def give_back(self) -> None:
        """Give the GPU what is free, if it is taken again when it is needed."""
        self.note()
        if self.grows:
            self._xp.get_default_memory_pool().free_all_blocks()


class Counting:
    """Takes memory from CuPy's pool, and knows the most that was in use since it was made. What
    other threads use meanwhile counts as well."""

    def __init__(self, xp: Any) -> None:
        self._pool = xp.get_default_memory_pool()
        self._before = self._used()
        #: Bytes at most, besides those that were in use before.
        self.most = 0

    def malloc(self, size: int) -> Any:
        """As the pool's."""
        found = self._pool.malloc(size)
        self.most = max(self.most, self._used() - self._before)
        return found

    def _used(self) -> int:
        # The pool counts what is in use piece by piece, and there are fewer that are free.
        return int(self._pool.total_bytes() - self._pool.free_bytes())


def has_room(streams: Streams, need: int) -> bool:
    """True if so many bytes may be taken; gives back what is free."""
    pool = streams.xp.get_default_memory_pool()
    streams.memory.give_back()
    free = streams.device.mem_info[0] + pool.free_bytes()
    if pool.get_limit():
        free = min(free, pool.get_limit() - pool.total_bytes() + pool.free_bytes())
    return bool(free >= need)


class GraphMemory:
    """The memory of a graph, taken from CuPy's pool and cut into values.

    It begins with one block of the `need` bytes of a run, and a little for gaps between values. Of
    blocks that are each as large as what was asked for first, many would fit nothing that comes
    later. Small values, some of which live long, come from a block of their own: between large ones
    they would keep these apart.
    """

    def __init__(self, streams: Streams, need: int) -> None:
        self._streams = streams
        self._large, self._small = (streams.xp.cuda.MemoryPool(self._take) for _ in range(2))
        with suppress(MemoryError):  # in smaller blocks it may be there
            self._small.malloc(tuning.GRAPH_SMALL_BLOCK)  # and back into this pool
            self._large.malloc(need + need // tuning.GRAPH_GAPS)

    def malloc(self, size: int) -> Any:
        """Memory for a value."""
        return (self._small if size < tuning.GRAPH_SMALL_BYTES else self._large).malloc(size)

    def total_bytes(self) -> int:
        """Bytes that CuPy's pool does not have for others."""
        return int(self._large.total_bytes() + self._small.total_bytes())

    def give_back(self) -> None:
        """Give CuPy's pool what is free."""
        self._large.free_all_blocks()
        self._small.free_all_blocks()

    def _take(self, size: int) -> Any:
        """By the rule of the streams. Until now the compute stream may have used it."""
        streams, current = self._streams, self._streams.xp.cuda.get_current_stream()
        streams.compute.use()
        try:
            found = streams.xp.get_default_memory_pool().malloc(size)
        finally:
            current.use()
        if not streams.recorded_by:  # what is recorded is launched on the compute stream
            current.wait_event(streams.event(streams.compute))
        return found


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
