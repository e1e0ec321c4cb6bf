"""Names of 1.x that hpcflow does without: errors say what to use, which exists."""

from __future__ import annotations

import importlib
import re

import pytest

import hpcflow
from hpcflow.api import absent_names


def find(path):
    found = hpcflow
    for part in path.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("path", absent_names.INSTEAD)
def test_the_error_of_an_absent_name_says_what_to_use(path):
    with pytest.raises(AttributeError, match="hpcflow does without") as caught:
        find(path)
    assert absent_names.INSTEAD[path] in str(caught.value)


@pytest.mark.parametrize("path", [
    "hpcflow.contrib.tensor_forest.python", "hpcflow.contrib.timeseries", "hpcflow.distribute"])
def test_importing_an_absent_module_says_what_to_use(path):
    with pytest.raises(ModuleNotFoundError, match="hpcflow does without; use"):
        importlib.import_module(path)


def test_what_to_use_instead_exists():
    for instead in absent_names.INSTEAD.values():
        for path in re.findall(r"`(?:hf|hpcflow)\.([\w.]+)", instead):
            try:
                find(path)
            except AttributeError:
                importlib.import_module(f"hpcflow.{path}")


def test_names_that_nothing_is_known_of_have_the_plain_error():
    with pytest.raises(AttributeError, match=r"^module 'hpcflow' has no attribute 'no_such_name'$"):
        _ = hpcflow.no_such_name
    with pytest.raises(AttributeError, match=r"^module 'hpcflow.contrib' has no attribute 'nope'$"):
        _ = hpcflow.contrib.nope
