"""HParams: hyperparameters as attributes, which may be set from a text."""

from __future__ import annotations

import json
import numbers
import re
from typing import TYPE_CHECKING, Any

from hpcflow.base.formats.protos import message_class

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.likes import TensorLike


_FIELDS = {bool: "bool", int: "int64", float: "float"}  # other values are texts


class HParams:
    """A set of hyperparameters, each of a type that its first value decides.

    ``HParams(rate=0.1, sizes=[3, 4])`` has the attributes `rate` and `sizes`.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None,
                 **kwargs: Any) -> None:
        self._model_structure = model_structure
        self._types: dict[str, tuple[type, bool]] = {}
        if hparam_def is not None:
            if not isinstance(hparam_def, message_class("HParamDef")):
                raise TypeError(f"hparam_def must be an HParamDef, got {hparam_def!r}")
            for name, value in hparam_def.hparam.items():
                self.add_hparam(name, _from_proto(value))
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: TensorLike) -> None:
        """Add a hyperparameter; ``ValueError`` if the name is taken or a list is empty."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError("Multi-valued hyperparameters cannot be empty: "
                                 f"{name}")
            self._types[name] = (type(value[0]), True)
        else:
            self._types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Set a hyperparameter to a value of its type; ``ValueError`` for one of another type."""
        kind, is_list = self._types[name]
        if isinstance(value, list) != is_list:
            raise ValueError(f"Must {'' if is_list else 'not '}pass a list for parameter: {name}.")
        setattr(self, name, [_cast(name, kind, v) for v in value] if is_list
                else _cast(name, kind, value))

    def override_from_dict(self, values_dict: dict) -> HParams:
        """Set the hyperparameters named in a dict; returns this."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    set_from_map = override_from_dict

    def parse(self, values: str) -> HParams:
        """Set hyperparameters from a text such as ``rate=0.2,sizes=[5,6],name=x``; returns this.

        Raises ``ValueError`` for an unknown name, or a value of another type.
        """
        kinds = {name: kind for name, (kind, _) in self._types.items()}
        for name, value in parse_values(values, kinds).items():
            if isinstance(value, dict):
                self._set_elements(name, value)
            else:
                self.set_hparam(name, value)
        return self

    def _set_elements(self, name: str, elements: dict[int, Any]) -> None:
        if not self._types[name][1]:
            raise ValueError(f"Must not pass a list for parameter: {name}: it is not a list, so it "
                             f"has no element {min(elements)}")
        for index, value in elements.items():
            getattr(self, name)[index] = value

    def del_hparam(self, name: str) -> None:
        """Remove a hyperparameter, if there is one of that name."""
        if hasattr(self, name):
            delattr(self, name)
            del self._types[name]

    def parse_json(self, values_json: str) -> HParams:
        """Set hyperparameters from a JSON object; returns this."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """Return the hyperparameters as a JSON object."""
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def to_proto(self, export_scope: str | None = None) -> Message:
        """Return an ``HParamDef`` of all hyperparameters; the scope is for the 1.x API."""
        del export_scope
        definition = message_class("HParamDef")()
        for name, (kind, is_list) in self._types.items():
            field = _FIELDS.get(kind, "bytes") + ("_list" if is_list else "_value")
            values = [v.encode() if isinstance(v, str) else v
                      for v in (getattr(self, name) if is_list else [getattr(self, name)])]
            target = definition.hparam[name]
            if is_list:
                getattr(target, field).value.extend(values)
            else:
                setattr(target, field, values[0])
        return definition

    def values(self) -> dict:
        """Return name -> value."""
        return {name: getattr(self, name) for name in self._types}

    def get(self, key: str, default: Any = None) -> Any:
        """Return a hyperparameter, or `default` if there is none of that name.

        Raises ``ValueError`` for a default that cannot have the hyperparameter's type.
        """
        if key not in self._types:
            return default
        if default is not None:
            kind, is_list = self._types[key]
            if isinstance(default, list) != is_list:
                raise ValueError(f"Hparam '{key}' of type '{kind}' is incompatible with "
                                 f"default={default!r}: one of them is a list")
            for each in default if is_list else [default]:
                _cast(key, kind, each)
        return getattr(self, key)

    def get_model_structure(self) -> Any:
        """Return the structure given at the beginning."""
        return self._model_structure

    def set_model_structure(self, model_structure: Any) -> None:
        """Replace the structure."""
        self._model_structure = model_structure

    def __contains__(self, key: str) -> bool:
        return key in self._types

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.values().items())

    def __repr__(self) -> str:
        return f"HParams({sorted(self.values().items())})"


_ASSIGNMENT = re.compile(
    r"\s*(?P<name>[a-zA-Z][\w.]*)\s*(\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
    r"((\[(?P<list>[^\]]*)\])|(?P<value>[^,\[]*))($|,)")


def _from_proto(value: Any) -> Any:
    field = value.WhichOneof("kind")
    held = getattr(value, field)
    if field.endswith("_list"):
        return [_text(v) for v in held.value]
    return _text(held)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def parse_values(values: str, type_map: dict[str, type],
                 ignore_unknown: bool = False) -> dict[str, Any]:
    """Return the values that a text such as ``rate=0.2,sizes=[5,6],names[1]=x`` gives to names.

    A value is of the type that `type_map` has for its name, or a list of such, or for single
    elements of a list a dict from their numbers. Raises ``ValueError`` for a name that `type_map`
    has not, unless `ignore_unknown`, for a text that is not of this form, a value of another type,
    and for a value that is given twice.
    """
    results: dict[str, Any] = {}
    position = 0
    while position < len(values):
        found = _ASSIGNMENT.match(values, position)
        if not found:
            raise ValueError(f"Malformed hyperparameter value: {values[position:]}")
        position = found.end()
        if found["name"] in type_map:
            _note(found, type_map[found["name"]], results, values)
        elif not ignore_unknown:
            raise ValueError(f"Unknown hyperparameter type for {found['name']}")
        elif found["index"] is not None and found["list"] is not None:
            raise ValueError(f"Assignment of a list to a list index. Name: {found['name']}")
    return results


def _note(found: re.Match, kind: type, results: dict[str, Any], values: str) -> None:
    """Add what one assignment says to `results`."""
    name, index = found["name"], found["index"]
    if index is not None and found["list"] is not None:
        raise ValueError(f"Assignment of a list to a list index. Name: {name}")
    elements = results.setdefault(name, {}) if index is not None else {}
    if index is None and name in results or not isinstance(elements, dict):
        raise ValueError(f"Multiple assignments to variable '{name}' in {values}")
    if index is not None:
        if int(index) in elements:
            raise ValueError(f"Multiple assignments to variable '{name}[{index}]' in {values}")
        elements[int(index)] = _parsed(name, kind, found["value"])
    elif found["list"] is not None:
        items = [x.strip() for x in found["list"].split(",") if x.strip()]
        results[name] = [_parsed(name, kind, x) for x in items]
    else:
        results[name] = _parsed(name, kind, found["value"])


def _cast(name: str, kind: type, value: Any) -> Any:
    """`value` as the type of its hyperparameter, where that loses nothing."""
    if value is None or kind is type(None) or type(value) is kind:
        return value
    wrong = ValueError(f"Could not cast hparam '{name}' of type '{kind}' from value {value!r}")
    if isinstance(value, bool) != (kind is bool) or isinstance(value, str) != (kind is str):
        raise wrong
    if kind is int and not isinstance(value, numbers.Integral):
        raise wrong
    return kind(value)


def _parsed(name: str, kind: type, text: str) -> Any:
    text = text.strip()
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return kind(text) if kind in (int, float) else text
    except (KeyError, ValueError):
        raise ValueError(f"Could not parse hparam '{name}' of type '{kind.__name__}' with value "
                         f"'{text}'") from None
