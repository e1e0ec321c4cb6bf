"""What asks for compilation: `contrib.compiler`."""

import pytest

import hpcflow as hf
from hpcflow.contrib import compiler


def test_what_is_to_be_compiled_is_computed():
    with compiler.jit.experimental_jit_scope():
        x = hf.constant(2.0) * 3.0
    variable = hf.Variable(1.0, use_resource=True)
    pair = compiler.xla.compile(lambda a, b: (a + b, a * b, variable.assign(5.0).op), [x, 4.0])
    single = compiler.xla.compile(lambda: hf.constant(7.0))
    nested = compiler.xla.compile(lambda a: {"a": [a, a + 1]}, [1])
    with hf.Session() as session:
        session.run(variable.initializer)
        assert session.run(pair) == [10, 24]
        assert session.run(variable) == 5
        assert session.run(single) == [7]
        assert session.run(nested) == {"a": [1, 2]}
        assert session.run(compiler.xla.compile(lambda: variable.assign(6.0).op)) is None
        assert session.run(variable) == 6
    with pytest.raises(TypeError, match="list or tuple"):
        compiler.xla.compile(lambda x: x, 3)
