"""Names of devices and of tasks: `/job:worker/replica:0/task:1/device:GPU:0`.

Every part may be missing (a partial specification). The old forms `/cpu:0` and `/gpu:1` are
read as `/device:CPU:0` and `/device:GPU:1`; `*` stands for "not specified".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hpcflow.graph.operation import Operation

#: Between the name of a GPU and that of a stream, in the rows of step statistics that tell what the
#: GPU did, beside those that tell what the host launched.
STREAM_ROW = "/stream:"

_NAME = re.compile(r"[A-Za-z0-9_.\-]+\Z")
_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SHORT_TYPES = ("CPU", "GPU")


class _Fields(NamedTuple):
    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None


class DeviceSpec:
    """A full or partial device name.

    Attributes `job`, `replica`, `task`, `device_type` (upper case) and `device_index` are
    None where unspecified, and may be assigned.
    """

    __slots__ = ("_device_index", "_device_type", "_job", "_replica", "_task")

    def __init__(
        self,
        job: str | None = None,
        replica: int | None = None,
        task: int | None = None,
        device_type: str | None = None,
        device_index: int | None = None,
    ) -> None:
        self.job = job
        self.replica = replica
        self.task = task
        self.device_type = device_type
        self.device_index = device_index

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Parse a device name. Raises ValueError naming the part that is wrong."""
        return cls(*_parse(spec))

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Replace all fields by those of a device name; returns self."""
        self._assign(_parse(spec))
        return self

    def merge_from(self, dev: DeviceSpec) -> None:
        """Take over the fields that `dev` specifies."""
        self._assign(_merge(self._fields(), dev._fields()))

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """A new specification: this one with the fields that `dev` specifies."""
        return DeviceSpec(*_merge(self._fields(), dev._fields()))

    def replace(self, **fields: Any) -> DeviceSpec:
        """A new specification: this one with other values for some of its fields.

        Raises ``TypeError`` for what is not a field, ``ValueError`` for a wrong value.
        """
        return DeviceSpec(**{**self._fields()._asdict(), **fields})

    def to_string(self) -> str:
        """The name, with the specified parts only; an unspecified index is `*`."""
        return _format(self._fields())

    def _fields(self) -> _Fields:
        return _Fields(self._job, self._replica, self._task, self._device_type, self._device_index)

    def _assign(self, fields: _Fields) -> None:
        self._job, self._replica, self._task, self._device_type, self._device_index = fields

    @property
    def job(self) -> str | None:
        """The job's name."""
        return self._job

    @job.setter
    def job(self, value: str | None) -> None:
        self._job = None if value is None else _job_name(str(value), f"job {value!r}")

    @property
    def replica(self) -> int | None:
        """The replica's number."""
        return self._replica

    @replica.setter
    def replica(self, value: int | None) -> None:
        self._replica = _number_or_none("replica", value)

    @property
    def task(self) -> int | None:
        """The task's number in its job."""
        return self._task

    @task.setter
    def task(self, value: int | None) -> None:
        self._task = _number_or_none("task", value)

    @property
    def device_type(self) -> str | None:
        """The type of device, in upper case."""
        return self._device_type

    @device_type.setter
    def device_type(self, value: str | None) -> None:
        self._device_type = (
            None if value is None else _type_name(str(value), f"device type {value!r}")
        )

    @property
    def device_index(self) -> int | None:
        """The number of the device among those of its type on its task."""
        return self._device_index

    @device_index.setter
    def device_index(self, value: int | None) -> None:
        self._device_index = _number_or_none("device index", value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceSpec) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"DeviceSpec({self.to_string()!r})"


def _number_or_none(what: str, value: int | None) -> int | None:
    return None if value is None else _number(str(value), f"{what} {value!r}")


def _number(text: str, where: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{where}: expected a number >= 0 or '*'")
    return int(text)


def _job_name(text: str, where: str) -> str:
    if not _NAME.match(text):
        raise ValueError(f"{where}: a job name is made of letters, digits, '_', '-' and '.'")
    return text


def _type_name(text: str, where: str) -> str:
    if not _TYPE.match(text):
        raise ValueError(f"{where}: a device type is made of letters, digits and '_'")
    return text.upper()


@lru_cache(maxsize=4096)
def _parse(spec: str) -> _Fields:
    """Split a name into its fields. Raises ValueError naming the part that is wrong."""
    fields: dict[str, Any] = {}
    for part in spec.split("/"):
        if not part:
            continue
        where = f"part '/{part}' of device name {spec!r}"
        for field, value in _parse_part(part, where).items():
            if field in fields:
                word = field.replace("_", " ")
                raise ValueError(f"{where}: Cannot specify multiple {word}s")
            fields[field] = value
    return _Fields(**fields)


def _parse_part(part: str, where: str) -> dict[str, Any]:
    key, *values = part.split(":")
    if key == "job" and len(values) == 1:
        return {"job": None if values[0] == "*" else _job_name(values[0], where)}
    if key in ("replica", "task") and len(values) == 1:
        return {key: _number_or_any(values[0], where)}
    if key == "device" and len(values) == 2:
        return _device(values[0], values[1], where)
    if key.upper() in _SHORT_TYPES and len(values) <= 1:
        return _device(key, values[0] if values else "*", where)
    raise ValueError(
        f"{where}: Unknown attribute; expected /job:NAME, /replica:N, /task:N, /device:TYPE:N, "
        "/cpu:N or /gpu:N"
    )


def _device(kind: str, index: str, where: str) -> dict[str, Any]:
    device_type = None if kind == "*" else _type_name(kind, where)
    return {"device_type": device_type, "device_index": _number_or_any(index, where)}


def _number_or_any(text: str, where: str) -> int | None:
    return None if text == "*" else _number(text, where)


@lru_cache(maxsize=4096)
def _format(fields: _Fields) -> str:
    text = "" if fields.job is None else f"/job:{fields.job}"
    if fields.replica is not None:
        text += f"/replica:{fields.replica}"
    if fields.task is not None:
        text += f"/task:{fields.task}"
    if fields.device_type is not None or fields.device_index is not None:
        index = "*" if fields.device_index is None else fields.device_index
        text += f"/device:{fields.device_type or '*'}:{index}"
    return text


def _merge(outer: _Fields, inner: _Fields) -> _Fields:
    """The fields of `inner`, completed from `outer`."""
    merged: list[Any] = [o if i is None else i for o, i in zip(outer, inner)]
    return _Fields(*merged)


def _fields_of(spec: str | DeviceSpec | None) -> _Fields:
    if isinstance(spec, DeviceSpec):
        return spec._fields()
    return _parse(spec or "")


def canonical_name(device: str | DeviceSpec | None) -> str:
    """The name of a device in its one canonical form; `""` for None."""
    return _format(_fields_of(device))


def check_valid(spec: str) -> None:
    """Raise ``ValueError`` unless `spec` is a valid device name."""
    DeviceSpec.from_string(spec)


def merge_names(outer: str | DeviceSpec | None, inner: str | DeviceSpec | None) -> str:
    """The canonical name of `inner` with the parts it leaves open taken from `outer`."""
    return _format(_merge(_fields_of(outer), _fields_of(inner)))


def merge_device(spec: str | DeviceSpec | None) -> Callable[[Any], str]:
    """A device function that completes an operation's own device from `spec`.

    The function takes anything with a `device` attribute (an Operation or a NodeDef); what
    is set there, by an inner scope, takes precedence. Raises ValueError for a bad `spec`.
    """
    outer = canonical_name(spec)

    def device_function(op: Operation) -> str:
        return merge_names(outer, op.device)

    return device_function


def matches(partial: str | DeviceSpec | None, full: str | DeviceSpec | None) -> bool:
    """True if `full` agrees with `partial` in every field that `partial` specifies."""
    wanted, given = _fields_of(partial), _fields_of(full)
    return all(w is None or w == g for w, g in zip(wanted, given))
