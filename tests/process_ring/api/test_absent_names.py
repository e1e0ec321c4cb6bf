"""Names of 1.x that hpcflow does without: errors say what to use, which exists."""

from __future__ import annotations

import importlib
import importlib.util
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
    "hpcflow.contrib.tensor_forest.python", "hpcflow.contrib.timeseries", "hpcflow.xla"])
def test_importing_an_absent_module_says_what_to_use(path):
    with pytest.raises(ModuleNotFoundError, match="hpcflow does without; use"):
        importlib.import_module(path)


def test_what_to_use_instead_exists():
    for instead in [*absent_names.INSTEAD.values(), *absent_names.BELOW.values()]:
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


@pytest.mark.parametrize(("path", "instead"), [
    ("python.ops.nn_ops.unheard_of", "public names"), ("keras.layers.Unheard", "hf.layers"),
    ("keras.backend.unheard_of", "hf.layers"), ("pywrap_tensorflow.TF_Unheard", "hf.Session"),
    ("python.eager.unheard", "hf.Session"), ("raw_ops.Unheard", "hpcflow.extending"),
])
def test_what_is_missing_below_a_path_says_what_to_use(path, instead):
    with pytest.raises(AttributeError, match=f"hpcflow does without.*{instead}"):
        find(path)


@pytest.mark.parametrize(("package", "name"), [
    ("contrib", "nccl"), ("contrib.layers", "scattered_embedding_column"),
    ("python.ops.nn_ops", "unheard_of"),
    ("contrib.boosted_trees.python.ops", "model_ops")])
def test_imports_of_what_is_missing_say_what_to_use(package, name):
    with pytest.raises(ModuleNotFoundError, match="hpcflow does without"):
        exec(f"from hpcflow.{package} import {name}")


def test_other_imports_fail_as_they_do_in_python():
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'hpcflow\.unheard_of'$"):
        importlib.import_module("hpcflow.unheard_of")
    assert importlib.util.find_spec("hpcflow.unheard_of") is None
