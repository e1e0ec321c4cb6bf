"""Parts of the 1.x API outside its core: ``layers``, ``legacy_seq2seq``, ``lookup``, ``rnn``, ...
"""

from __future__ import annotations

import importlib
from typing import Any

from hpcflow.other_names import named_otherwise

_MODULES = ("layers", "legacy_seq2seq", "lookup", "rnn", "sharded", "staging", "util")


_named_otherwise = named_otherwise("hpcflow.contrib")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        return _named_otherwise(name)
    return importlib.import_module(f"hpcflow.contrib.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
