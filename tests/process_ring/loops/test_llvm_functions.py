"""Functions of mathematics in loops of vectors: against longer numbers, of all kinds."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from hpcflow.kernels.math import error_functions
from hpcflow.loops import compiling

pytestmark = pytest.mark.skipif(not compiling.enabled(), reason="there is no compiler")
if compiling.enabled():
    from llvmlite import binding, ir

    from hpcflow.loops import entries, llvm_functions, llvm_math
    from hpcflow.loops.meanings import MEANINGS

    llvm_functions.load_library()
    CASES = [(name, dtype) for name in sorted(llvm_functions.FUNCTIONS - {"gammaln"})  # no vectors
             for dtype in ("float32", "float64") if llvm_functions.supports(name, dtype)]
else:
    CASES = []
ERRORS = {"erf": error_functions.erf, "erfc": error_functions.erfc}


def loop_of(function, dtype, operands):
    """A loop over numbers as a function of addresses and a size, its text, and what it lives in."""
    machine, module = entries.target_machine(), ir.Module("functions")
    module.triple, module.data_layout = binding.get_default_triple(), str(machine.target_data)
    word, place = ir.IntType(64), llvm_math.value_type(dtype).as_pointer()
    loop = ir.Function(module, ir.FunctionType(
        ir.VoidType(), [place] * (operands + 1) + [word]), "loop")
    start, body, end = [loop.append_basic_block() for _ in range(3)]
    *arrays, size = loop.args
    builder = ir.IRBuilder(start)
    builder.branch(body)
    builder.position_at_end(body)
    index = builder.phi(word)
    index.add_incoming(word(0), start)
    places = [builder.gep(a, [index], inbounds=True) for a in arrays]
    made = llvm_functions.emit(function, builder, dtype, [*map(builder.load, places[:-1])])
    builder.store(made, places[-1])
    following = builder.add(index, word(1), flags=("nuw", "nsw"))
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, size), body, end)
    builder.position_at_end(end)
    builder.ret_void()
    llvm_functions.keep_variants(module)
    parsed = binding.parse_assembly(str(module))
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(parsed, passes)
    text = str(parsed)
    engine = binding.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    kinds = [ctypes.c_void_p] * (operands + 1) + [ctypes.c_int64]
    return ctypes.CFUNCTYPE(None, *kinds)(engine.get_function_address("loop")), text, engine


def numbers(dtype, random):
    """Of all magnitudes, and special ones."""
    info, bits = np.finfo(dtype), f"uint{8 * np.dtype(dtype).itemsize}"
    special = [0.0, -0.0, 1, -1, 2, -3, 0.5, -5.5, np.inf, -np.inf, np.nan, info.tiny, -info.tiny,
               info.smallest_subnormal, -info.smallest_subnormal, info.max, -info.max]
    every = random.integers(0, np.iinfo(bits).max, 50_000, bits, endpoint=True).view(dtype)
    return np.concatenate([np.array(special, dtype), every, *[
        (m + random.normal(0, s, 20_000)).astype(dtype)
        for m, s in ((0, 0.1), (1, 0.1), (0, 1), (0, 50), (0, 400))]])


def check(function, dtype, given, exact):
    """The results are those numbers, within the units that are stated."""
    loop, text, _engine = loop_of(function, dtype, len(given))
    found = np.empty_like(given[0])
    loop(*[a.ctypes.data for a in (*given, found)], found.size)
    assert " x float>" in text or " x double>" in text, "is not a loop over vectors"
    nearest = exact.astype(dtype)
    is_near = np.isfinite(nearest) & np.isfinite(found)
    np.testing.assert_array_equal(found[~is_near], nearest[~is_near])
    is_zero = (found == 0) & (nearest == 0)
    np.testing.assert_array_equal(np.signbit(found[is_zero]), np.signbit(nearest[is_zero]))
    unit = np.spacing(np.abs(nearest[is_near])).astype(np.longdouble)
    off = np.abs(found[is_near] - exact[is_near]) / unit
    assert off.max() <= MEANINGS[function].ulps, [a[is_near][off.argmax()] for a in given]


@pytest.mark.parametrize(("function", "dtype"), [c for c in CASES if c[0] != "power"])
def test_functions_of_one_number(function, dtype):
    seed = 20
    print(f"seed {seed}")
    given = numbers(dtype, np.random.default_rng(seed))
    with np.errstate(all="ignore"):
        if function in ERRORS:
            exact = ERRORS[function](given.astype(np.float64)).astype(np.longdouble)
        else:
            exact = getattr(np, function)(given.astype(np.longdouble))
        check(function, dtype, [given], exact)


@pytest.mark.parametrize("dtype", [d for name, d in CASES if name == "power"])
def test_powers(dtype):
    seed = 21
    print(f"seed {seed}")
    random = np.random.default_rng(seed)
    special = numbers(dtype, random)[:17]
    x, wide = numbers(dtype, random), numbers(dtype, random)
    whole = random.integers(-20, 20, x.size).astype(dtype)
    small = random.normal(0, 3, x.size).astype(dtype)
    bases = np.concatenate([np.repeat(special, special.size), x, x, np.abs(x)])
    exponents = np.concatenate([np.tile(special, special.size), whole, wide, small])
    with np.errstate(all="ignore"):
        exact = np.power(bases.astype(np.longdouble), exponents.astype(np.longdouble))
        check("power", dtype, [bases, exponents], exact)
