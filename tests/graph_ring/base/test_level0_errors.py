"""Errors: classes and codes, explanatory messages, and their way between processes."""

from __future__ import annotations

import os
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from hpcflow import errors

SUBCLASSES = [errors.exception_type_from_error_code(code) for code in range(1, 17)]
OP = SimpleNamespace(
    name="layer/MatMul", type="MatMul", creation_site=("train.py", 12, "build_model")
)


@pytest.mark.parametrize("cls", SUBCLASSES)
def test_classes_carry_their_code(cls):
    error = cls(None, OP, "it failed")
    constant = "".join("_" + c if c.isupper() else c for c in cls.__name__[: -len("Error")])
    assert error.error_code == getattr(errors, constant[1:].upper())
    assert errors.error_code_from_exception_type(cls) == error.error_code
    assert error.op is OP and error.message == str(error) == "it failed"
    assert isinstance(error, errors.OpError)


def test_codes_of_other_types():
    assert errors.error_code_from_exception_type(ValueError) == errors.UNKNOWN
    with pytest.raises(KeyError):
        errors.exception_type_from_error_code(99)
    assert errors.make(99, "x").error_code == 99


def test_status_raises_at_the_end():
    with errors.raise_exception_on_not_ok_status() as status:
        assert status.error_code == errors.OK
    with pytest.raises(errors.NotFoundError, match="no such thing"):
        with errors.raise_exception_on_not_ok_status() as status:
            status.set(errors.NOT_FOUND, "no such thing")


def test_message_explains_itself():
    error = errors.op_error(
        errors.InvalidArgumentError,
        "MatMul: inner dimensions differ: [64,784] x [100,10]",
        op=OP,
        device="/job:worker/task:1/device:CPU:0",
        rank=3,
        input_shapes=[np.zeros((64, 784), np.float32), ("float32", (100, None)), "int32[]"],
    )
    assert type(error) is errors.InvalidArgumentError and error.op is OP
    assert str(error) == (
        "MatMul: inner dimensions differ: [64,784] x [100,10] (op 'layer/MatMul' of type MatMul "
        "on /job:worker/task:1/device:CPU:0, rank 3, inputs float32[64,784], float32[100,?], "
        "int32[], created at train.py:12 in build_model)"
    )


def test_message_without_context_is_bare():
    assert str(errors.op_error(errors.InternalError, "broken")) == "broken"
    nameless = SimpleNamespace(name="a", type="B", creation_site=None)
    assert str(errors.op_error(errors.InternalError, "x", nameless)) == "x (op 'a' of type B)"
    assert str(errors.op_error(errors.InternalError, "x", device="/job:ps")) == "x (on /job:ps)"


def test_paths_are_short_inside_the_working_directory():
    site = (os.path.join(os.getcwd(), "train.py"), 1, "f")
    op = SimpleNamespace(name="a", type="B", creation_site=site)
    assert "created at train.py:1 in f" in errors.op_context(op)
    op.creation_site = ("/somewhere/else/train.py", 1, "f")
    assert "created at /somewhere/else/train.py:1" in errors.op_context(op)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(1), "float32[]"),
        (np.array([b"a"], object), "string[1]"),
        (("int32_ref", None), "int32_ref<unknown>"),
        (None, "none"),
        (3, "int"),
        (np.zeros(2, "datetime64[s]"), "datetime64[s][2]"),
    ],
)
def test_values_in_short(value, text):
    assert errors.describe_value(value) == text


def test_wire_keeps_class_message_and_operation():
    error = errors.op_error(errors.OutOfRangeError, "end of queue", op=OP, rank=1)
    for received in (
        errors.from_wire(error.to_wire()),
        errors.OpError.from_wire(error.to_wire()),
        pickle.loads(pickle.dumps(error)),
    ):
        assert type(received) is errors.OutOfRangeError
        assert received.message == error.message
        assert received.op is None and received.op_name == "layer/MatMul"
    found = errors.from_wire(error.to_wire(), {"layer/MatMul": OP}.get)
    assert found.op is OP
    assert errors.from_wire(errors.make(99, "odd").to_wire()).error_code == 99
    with pytest.raises(ValueError, match="Expecting"):
        errors.from_wire(b"garbage")


def test_codes_that_no_class_has_are_told_of():
    with pytest.warns(UserWarning, match="Unknown error code: 37"):
        error = errors._make_specific_exception(None, None, "what", 37)
    assert isinstance(error, errors.UnknownError) and error.error_code == 37
