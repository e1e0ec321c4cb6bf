"""Cases of random ops: dtypes, shapes, seeds; the same numbers, or the distribution by moments."""

from __future__ import annotations

import numpy as np
from case import Type
from table import FLOATS, Table, family, ints, scalar

SIZE = (100, 400)
SEEDS = {"seed": 87, "seed2": 3}


@family
def distributions(table: Table) -> None:
    for op in ("RandomStandardNormal", "RandomUniform", "TruncatedNormal"):
        for dtype in FLOATS:
            for shape in (SIZE, (0, 3), (2, 2), ()):
                for kind in ("int32", "int64"):
                    table.add(op, {"shape": np.array(shape, kind)},
                              {"dtype": Type(dtype), **SEEDS},
                              tolerance=0 if op == "RandomUniform" else 64)
        table.bad(op, {"shape": ints(-1)}, {"dtype": Type("float32"), **SEEDS})
        table.bad(op, {"shape": np.zeros((2, 2), "int32")}, {"dtype": Type("float32"), **SEEDS})
    for kind in ("int32", "int64"):
        for low, high in ((0, 10), (-5, 3), (-100000, 100000)):
            table.add("RandomUniformInt", {"shape": ints(*SIZE), "minval": scalar(low, kind),
                                           "maxval": scalar(high, kind)}, SEEDS)
        table.bad("RandomUniformInt", {"shape": ints(3), "minval": scalar(3, kind),
                                       "maxval": scalar(3, kind)}, SEEDS)
    for dtype in FLOATS:
        for parameters in ((0.0, 1.0, -1.0, 1.0), (2.0, 0.5, 2.5, 9.0), (-1.0, 2.0, -np.inf, 0.0),
                           (0.0, 1.0, 4.0, 5.0)):
            table.add("ParameterizedTruncatedNormal", {"shape": ints(*SIZE), **{
                k: np.full(1, v).astype(dtype)[0:1] for k, v in zip(
                    ("means", "stdevs", "minvals", "maxvals"), parameters)}}, SEEDS,
                check="moments")
    table.bad("ParameterizedTruncatedNormal", {"shape": ints(4), "means": np.zeros(1, "float32"),
                                               "stdevs": -np.ones(1, "float32"), "minvals":
                                               np.zeros(1, "float32"), "maxvals": np.ones(
                                                   1, "float32")}, SEEDS)


@family
def parameters(table: Table) -> None:
    for dtype in FLOATS:
        for alpha in (0.3, 1.0, 7.0):
            table.add("RandomGamma", {"shape": ints(3000), "alpha": scalar(alpha, dtype)}, SEEDS)
        table.add("RandomGamma", {"shape": ints(20), "alpha": table.positive(dtype, (3, 2))}, SEEDS)
        for rate in (0.5, 4.0, 30.0):
            inputs = {"shape": ints(3000), "rate": scalar(rate, dtype)}
            table.add("RandomPoisson", inputs, SEEDS, reference=(
                "RandomPoissonV2", inputs, {"dtype": Type(dtype), **SEEDS}))
            table.add("RandomPoissonV2", inputs, {"dtype": Type("int32"), **SEEDS})
    for dtype in table.dtypes("Multinomial", ("float32", "float64", "float16", "int32")):
        table.add("Multinomial", {"logits": np.array([[0, 1, 2]], dtype), "num_samples": scalar(
            30000)}, SEEDS)
        table.add("Multinomial", {"logits": table.normal(dtype, (3, 4)), "num_samples": scalar(0)},
                  SEEDS, check="moments")
    x = table.normal("float32", (2, 3))
    table.bad("Multinomial", {"logits": x, "num_samples": scalar(-1)}, SEEDS)
    table.bad("Multinomial", {"logits": x[0], "num_samples": scalar(2)}, SEEDS)
    table.bad("Multinomial", {"logits": x[:, :0], "num_samples": scalar(2)}, SEEDS)


@family
def orders(table: Table) -> None:
    for dtype in ("float32", "int64", "string"):
        for shape in ((2000,), (50, 3), (0,), (1,)):
            value = table.distinct(dtype, shape) if dtype != "string" else table.normal(
                dtype, shape)
            table.add("RandomShuffle", {"value": value}, SEEDS)
    table.add("RandomShuffle", {"value": scalar(2.5, "float32")}, SEEDS)


@family
def stateless(table: Table) -> None:
    """The numbers follow from the seeds: they are those of the reference, but for rounding."""
    seeds = (ints(0, 0), ints(3, 5), ints(-7, 2**31 - 1), np.array([2**40 + 3, -9], "int64"))
    for seed in seeds:
        table.add("StatelessRandomGetKeyCounter", {"seed": seed})
        table.add("StatelessRandomGetKeyCounterAlg", {"seed": seed})
        key = {"key": np.array([table.rng.integers(2**63)], "uint64"),
               "counter": np.array([2**64 - 2, 5], "uint64"), "alg": scalar(1)}
        for dims in ((), (0,), (7,), (3, 5), (1001,)):
            shape = np.array(dims, "int32")
            old, new = {"shape": shape, "seed": seed}, {"shape": shape, **key}
            for name in ("RandomUniform", "RandomNormal", "TruncatedNormal"):
                for dtype in ("float16", "float32", "float64"):
                    attrs = {"dtype": Type(dtype)}
                    # Sines and logarithms of other libraries round differently.
                    tolerance = 0 if name == "RandomUniform" else 64
                    table.add(f"Stateless{name}", old, attrs, tolerance=tolerance)
                    table.add(f"Stateless{name}V2", new, attrs, tolerance=tolerance)
            for dtype in ("int32", "int64"):
                bounds = {"minval": scalar(-5, dtype), "maxval": scalar(100, dtype)}
                table.add("StatelessRandomUniformInt", {**old, **bounds}, {"dtype": Type(dtype)})
                table.add("StatelessRandomUniformIntV2", {**new, **bounds},
                          {"dtype": Type(dtype)})
                table.add("StatelessRandomUniformFullInt", old, {"dtype": Type(dtype)})
                table.add("StatelessRandomUniformFullIntV2", new, {"dtype": Type(dtype)})
        for dtype in ("float32", "float64", "int32"):
            table.add("StatelessMultinomial", {"logits": table.normal(dtype, (3, 4)),
                                               "num_samples": scalar(50, "int32"), "seed": seed})
    table.bad("StatelessMultinomial", {"logits": table.normal("float32", (3,)), "seed": ints(1, 2),
                                       "num_samples": scalar(5, "int32")})
    table.bad("StatelessRandomUniform", {"shape": ints(2), "seed": ints(1, 2, 3)})
    table.bad("StatelessRandomUniformInt", {"shape": ints(2), "seed": ints(1, 2), "minval": scalar(
        3), "maxval": scalar(3)})
    table.bad("StatelessRandomUniformV2", {**new, "shape": ints(2), "alg": scalar(9)})
