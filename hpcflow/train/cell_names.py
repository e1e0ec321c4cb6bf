"""Variables of recurrent cells by the names that they have in other versions of 1.x.

What is called ``kernel`` and ``bias`` since 1.2 was called ``weights`` and ``biases`` before.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from hpcflow.train.checkpoint_reader import NewCheckpointReader

_OTHER = {"kernel": "weights", "weights": "kernel", "bias": "biases", "biases": "bias"}
#: The scope of a cell or of what is around one, the variable, and what follows it, as a slot.
_OF_CELL = re.compile(r"((?:.*/)?[^/]*_(?:cell|wrapper)(?:_\d+)?/(?:.*/)?)"
                      rf"({'|'.join(_OTHER)})((?:/[^/]+)?)")


def other_name(name: str) -> str | None:
    """Return what another version calls a variable of a cell; None for other variables."""
    found = _OF_CELL.fullmatch(name)
    return None if found is None else found[1] + _OTHER[found[2]] + found[3]


def restore_by_other_names(variables: Mapping[str, Any], session: Any, path: str) -> bool:
    """Give variables, by name, the values of a checkpoint in which those of cells have the names of
    another version.

    Returns False, and changes nothing, if the checkpoint lacks a variable by both of its names.
    """
    reader = NewCheckpointReader(path)
    names = _names_there(variables, reader.get_variable_to_shape_map())
    if names is None or not all(hasattr(v, "load") for v in variables.values()):
        return False
    values = {name: reader.get_tensor(there) for name, there in names.items()}
    for name, variable in variables.items():
        variable.load(values[name], session)
    return True


def _names_there(names: Collection[str], there: Collection[str]) -> dict[str, str] | None:
    found = {}
    for name in names:
        other = other_name(name)
        if name in there:
            found[name] = name
        elif other is not None and other in there:
            found[name] = other
        else:
            return None
    return found
