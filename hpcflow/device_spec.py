"""Names of devices and of tasks: `/job:worker/replica:0/task:1/device:GPU:0`.

Every part may be missing (a partial specification). The old forms `/cpu:0` and `/gpu:1` are
read as `/device:CPU:0` and `/device:GPU:1`; `*` stands for "not specified".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

    from hpcflow.graph.operation import Operation

#: Between the name of a GPU and that of a stream, in the rows of step statistics that tell what the
#: GPU did, beside those that tell what the host launched.
STREAM_ROW = "/stream:"

_NAME = re.compile(r"[A-Za-z0-9_.\-]+\Z")
_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SHORT_TYPES = ("CPU", "GPU")


_Value = TypeVar("_Value")


class _Fields(NamedTuple):
    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None


class _Part(Generic[_Value]):
    """A part of a device name: read from every specification, assigned to a `DeviceSpec` only."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, spec: DeviceSpecV2, owner: type | None = None) -> _Value:
        return getattr(spec._held, self._name)

    def __set__(self, spec: DeviceSpecV2, value: _Value) -> None:
        if not isinstance(spec, DeviceSpec):
            raise AttributeError(
                f"{self._name} of a {type(spec).__name__} cannot be assigned: use replace()")
        changed: dict[str, Any] = {self._name: value}
        spec._held = _checked(spec._held._replace(**changed))


class DeviceSpecV2:
    """A full or partial device name that stays as it was made.

    Attributes `job`, `replica`, `task`, `device_type` and `device_index` are None where
    unspecified. Types CPU and GPU are in upper case. Raises ``ValueError`` for a wrong part.
    """

    __slots__ = ("_held",)

    job: _Part[str | None] = _Part()
    replica: _Part[int | None] = _Part()
    task: _Part[int | None] = _Part()
    device_type: _Part[str | None] = _Part()
    device_index: _Part[int | None] = _Part()

    def __init__(
        self,
        job: str | None = None,
        replica: int | None = None,
        task: int | None = None,
        device_type: str | None = None,
        device_index: int | None = None,
    ) -> None:
        self._held = _checked(_Fields(job, replica, task, device_type, device_index))

    @classmethod
    def from_string(cls, spec: str) -> Self:
        """Parse a device name. Raises ValueError naming the part that is wrong."""
        return cls(*_parse(spec))

    def parse_from_string(self, spec: str) -> Self:
        """The specification of a device name, as `from_string` makes it."""
        return self.from_string(spec)

    def make_merged_spec(self, dev: DeviceSpecV2) -> Self:
        """A new specification: this one with the fields that `dev` specifies."""
        return type(self)(*_merge(self._held, dev._held))

    def replace(self, **fields: Any) -> Self:
        """A new specification: this one with other values for some of its fields.

        Raises ``TypeError`` for what is not a field, ``ValueError`` for a wrong value.
        """
        return type(self)(**{**self._held._asdict(), **fields})

    def to_string(self) -> str:
        """The name, with the specified parts only; an unspecified index is `*`."""
        return _format(self._held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceSpecV2) and self._held == other._held

    def __hash__(self) -> int:
        return hash(self._held)

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_string()!r})"


class DeviceSpec(DeviceSpecV2):
    """A full or partial device name whose parts may be assigned.

    Attributes `job`, `replica`, `task`, `device_type` and `device_index` are None where
    unspecified. Types CPU and GPU are in upper case.
    """

    __slots__ = ()

    def parse_from_string(self, spec: str) -> Self:
        """Replace all fields by those of a device name; returns self."""
        self._held = _parse(spec)
        return self

    def merge_from(self, dev: DeviceSpecV2) -> None:
        """Take over the fields that `dev` specifies."""
        self._held = _merge(self._held, dev._held)


def _checked(fields: _Fields) -> _Fields:
    """The fields in their canonical form. Raises ``ValueError`` for a wrong one."""
    job, replica, task, kind, index = fields
    return _Fields(
        None if job is None else _job_name(str(job), f"job {job!r}"),
        _number_or_none("replica", replica),
        _number_or_none("task", task),
        None if kind is None else _type_name(str(kind), f"device type {kind!r}"),
        _number_or_none("device index", index))


def _number_or_none(what: str, value: int | None) -> int | None:
    return None if value is None else _number(str(value), f"{what} {value!r}")


def _number(text: str, where: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{where}: invalid literal for int: expected a number >= 0 or '*'")
    return int(text)


def _job_name(text: str, where: str) -> str:
    if not _NAME.match(text):
        raise ValueError(f"{where}: a job name is made of letters, digits, '_', '-' and '.'")
    return text


def _type_name(text: str, where: str) -> str:
    if not _TYPE.match(text):
        raise ValueError(f"{where}: a device type is made of letters, digits and '_'")
    return text.upper() if text.upper() in _SHORT_TYPES else text


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
        f"{where}: Unknown attribute: {key!r}; expected /job:NAME, /replica:N, /task:N, "
        "/device:TYPE:N, /cpu:N or /gpu:N"
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


def _fields_of(spec: str | DeviceSpecV2 | None) -> _Fields:
    if isinstance(spec, DeviceSpecV2):
        return spec._held
    return _parse(spec or "")


def canonical_name(device: str | DeviceSpecV2 | None) -> str:
    """The name of a device in its one canonical form; `""` for None."""
    return _format(_fields_of(device))


def check_valid(spec: str) -> None:
    """Raise ``ValueError`` unless `spec` is a valid device name."""
    DeviceSpec.from_string(spec)


def merge_names(outer: str | DeviceSpecV2 | None, inner: str | DeviceSpecV2 | None) -> str:
    """The canonical name of `inner` with the parts it leaves open taken from `outer`."""
    return _format(_merge(_fields_of(outer), _fields_of(inner)))


def merge_device(spec: str | DeviceSpecV2 | None) -> Callable[[Any], str]:
    """A device function that completes an operation's own device from `spec`.

    The function takes anything with a `device` attribute (an Operation or a NodeDef); what
    is set there, by an inner scope, takes precedence. Raises ValueError for a bad `spec`.
    """
    outer = canonical_name(spec)

    def device_function(op: Operation) -> str:
        return merge_names(outer, op.device)

    return device_function


def matches(partial: str | DeviceSpecV2 | None, full: str | DeviceSpecV2 | None) -> bool:
    """True if `full` agrees with `partial` in every field that `partial` specifies."""
    wanted, given = _fields_of(partial), _fields_of(full)
    return all(w is None or w == g for w, g in zip(wanted, given))
