"""Cases of variables: assignments, scatter updates, training updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from case import Type, Variable
from table import ALL, FLOATS, NUMBERS, REALS, Table, family, ints, scalar

# Of a training update: its slots, then its other arguments with typical values; G is the gradient.
UPDATES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "GradientDescent": ((), {"alpha": 0.3, "delta": "G"}),
    "ProximalGradientDescent": ((), {"alpha": 0.3, "l1": 0.1, "l2": 0.2, "delta": "G"}),
    "Adadelta": (("accum", "accum_update"), {"lr": 0.3, "rho": 0.9, "epsilon": 1e-3, "grad": "G"}),
    "Adagrad": (("accum",), {"lr": 0.3, "grad": "G"}),
    "AdagradDA": (("gradient_accumulator", "gradient_squared_accumulator"),
                  {"grad": "G", "lr": 0.3, "l1": 0.05, "l2": 0.1, "global_step": 3}),
    "ProximalAdagrad": (("accum",), {"lr": 0.3, "l1": 0.1, "l2": 0.2, "grad": "G"}),
    "Ftrl": (("accum", "linear"), {"grad": "G", "lr": 0.3, "l1": 0.1, "l2": 0.2,
                                   "lr_power": -0.5}),
    "Momentum": (("accum",), {"lr": 0.3, "grad": "G", "momentum": 0.8}),
    "Adam": (("m", "v"), {"beta1_power": 0.81, "beta2_power": 0.99, "lr": 0.1, "beta1": 0.9,
                          "beta2": 0.995, "epsilon": 1e-3, "grad": "G"}),
    "RMSProp": (("ms", "mom"), {"lr": 0.1, "rho": 0.9, "momentum": 0.5, "epsilon": 1e-3,
                                "grad": "G"}),
    "CenteredRMSProp": (("mg", "ms", "mom"), {"lr": 0.1, "rho": 0.9, "momentum": 0.5,
                                              "epsilon": 0.5, "grad": "G"}),
    "AdagradV2": (("accum",), {"lr": 0.3, "epsilon": 1e-2, "grad": "G"}),
    "FtrlV2": (("accum", "linear"), {"grad": "G", "lr": 0.3, "l1": 0.1, "l2": 0.2,
                                     "l2_shrinkage": 0.05, "lr_power": -0.5}),
    "AdaMax": (("m", "v"), {"beta1_power": 0.81, "lr": 0.1, "beta1": 0.9, "beta2": 0.995,
                            "epsilon": 1e-3, "grad": "G"}),
    "AddSign": (("m",), {"lr": 0.1, "alpha": 1.0, "sign_decay": 0.9, "beta": 0.9, "grad": "G"}),
    "PowerSign": (("m",), {"lr": 0.1, "logbase": 1.0, "sign_decay": 0.9, "beta": 0.9,
                           "grad": "G"}),
    "AdamWithAmsgrad": (("m", "v", "vhat"), {
        "beta1_power": 0.81, "beta2_power": 0.99, "lr": 0.1, "beta1": 0.9, "beta2": 0.995,
        "epsilon": 1e-3, "grad": "G"}),
    "KerasMomentum": (("accum",), {"lr": 0.3, "grad": "G", "momentum": 0.8}),
}
SPARSE = [name for name in UPDATES if name not in ("GradientDescent", "Adam", "AdamWithAmsgrad",
                                                   "AdaMax", "AddSign", "PowerSign")]
ON_HANDLES_ONLY = ("AdamWithAmsgrad", "KerasMomentum")
NESTEROV = [{"use_nesterov": False}, {"use_nesterov": True, "use_locking": True}]
ATTRIBUTES = {
    "Momentum": NESTEROV, "KerasMomentum": NESTEROV,
    "AdagradV2": [{}, {"update_slots": False}],
    "FtrlV2": [{}, {"multiply_linear_by_lr": True}],
}
UPDATE_TOLERANCE = 16


@family
def assignments(table: Table) -> None:
    for dtype in ALL:
        for shape in ((), (0,), (2, 3)):
            value = table.normal(dtype, shape)
            table.add("Assign", {"ref": Variable(table.normal(dtype, shape)), "value": value})
            table.add("AssignVariableOp", {"resource": Variable(table.normal(dtype, shape), True),
                                           "value": value})
            table.add("ReadVariableOp", {"resource": Variable(value, True)}, {"dtype": Type(dtype)})
            table.add("IsVariableInitialized", {"ref": Variable(value)})
            table.add("IsVariableInitialized", {"ref": Variable(value, initialized=False)})
            table.add("VarIsInitializedOp", {"resource": Variable(value, True)})
            table.add("VarIsInitializedOp", {"resource": Variable(value, True, False)})
            if dtype in NUMBERS:
                for op in ("AssignAdd", "AssignSub"):
                    table.add(op, {"ref": Variable(value), "value": table.normal(dtype, shape)})
                    table.add(op + "VariableOp", {"resource": Variable(value, True),
                                                  "value": table.normal(dtype, shape)})
    x, wrong = table.normal("float32", (2, 3)), table.normal("float32", (2,))
    for op in ("Assign", "AssignAdd", "AssignSub"):
        table.bad(op, {"ref": Variable(x), "value": wrong}, label="shape")
    table.add("Assign", {"ref": Variable(x), "value": wrong}, {"validate_shape": False})
    for op in ("AssignAdd", "AssignSub"):
        table.bad(op, {"ref": Variable(x, initialized=False), "value": x}, label="uninitialized")
        table.bad(op + "VariableOp", {"resource": Variable(x, True), "value": wrong})
        table.bad(op + "VariableOp", {"resource": Variable(x, True, False), "value": x})
    table.bad("ReadVariableOp", {"resource": Variable(x, True, False)}, {"dtype": Type("float32")})
    for kind in ("int32", "int64"):
        table.add("CountUpTo", {"ref": Variable(scalar(3, kind))}, {"limit": 5})
        table.bad("CountUpTo", {"ref": Variable(scalar(5, kind))}, {"limit": 5})
        table.add("ResourceCountUpTo", {"resource": Variable(scalar(3, kind), True)}, {
            "limit": 5, "T": Type(kind)})
        table.bad("ResourceCountUpTo", {"resource": Variable(scalar(5, kind), True)}, {
            "limit": 5, "T": Type(kind)})
    table.add("DestroyResourceOp", {"resource": Variable(x, True)}, label="gone afterwards")


@family
def scatters(table: Table) -> None:
    for name in ("Update", "Add", "Sub", "Mul", "Div", "Max", "Min"):
        for dtype in table.dtypes("Scatter" + name):
            for kind in ("int32", "int64"):
                for shape, dims in (((5,), (3,)), ((5, 2), (2, 2)), ((5, 2), ()), ((5, 2), (0,))):
                    # The order of repeated indices is free where they replace.
                    indices = table.rng.permutation(5)[:int(np.prod(dims))].reshape(dims) \
                        if name == "Update" else table.integers(5, dims)
                    updates = table.nonzero(dtype, (*dims, *shape[1:]))
                    for resource in (False, True):
                        variable = Variable(table.normal(dtype, shape), resource)
                        table.add(("Resource" if resource else "") + "Scatter" + name, {
                            "resource" if resource else "ref": variable,
                            "indices": np.asarray(indices, kind), "updates": updates})
        x = table.normal("float32", (4, 2))
        for indices, updates in ((ints(4), (1, 2)), (ints(-1), (1, 2)), (ints(0, 1), (1, 2)),
                                 (ints(0), (1, 3))):
            for resource in (False, True):
                table.bad(("Resource" if resource else "") + "Scatter" + name, {
                    "resource" if resource else "ref": Variable(x, resource), "indices": indices,
                    "updates": table.normal("float32", updates)}, label=f"{indices} {updates}")


@family
def nd_scatters(table: Table) -> None:
    for name in ("Update", "Add", "Sub", "Max", "Min"):
        op = "ScatterNd" + name
        for dtype in REALS if name in ("Max", "Min") else NUMBERS:
            for kind in ("int32", "int64"):
                for shape, index, rest in (((5,), [[0], [3]], ()), ((3, 4), [[0, 1], [2, 3]], ()),
                                           ((3, 4), [[2], [0]], (4,))):
                    value, places = table.normal(dtype, shape), np.array(index, kind)
                    updates = table.normal(dtype, (2, *rest))
                    for form in ("", "Resource"):
                        table.add(form + op, {"ref": Variable(value, bool(form)),
                                              "indices": places, "updates": updates})
                    if name == "Update":
                        table.add("ResourceGatherNd", {"resource": Variable(value, True),
                                                       "indices": places}, {"dtype": Type(dtype)})
        x = table.normal("float32", (4, 2))
        for index, dims in (([[4]], (1, 2)), ([[-1]], (1, 2)), ([[0]], (2, 2)),
                            ([[0, 0, 0]], (1,))):
            table.bad(op, {"ref": Variable(x), "indices": np.array(index, "int32"),
                           "updates": table.normal("float32", dims)}, label=f"{index} {dims}")
    for shape, begin, end, strides in (((5,), (1,), (4,), (1,)), ((3, 4), (0, 1), (3, 3), (2, 1)),
                                       ((5,), (4,), (0,), (-2,))):
        for dtype in ("float32", "int32", "complex64"):
            index = tuple(slice(b, e, s) for b, e, s in zip(begin, end, strides))
            dims = np.zeros(shape)[index].shape
            table.add("StridedSliceAssign", {
                "ref": Variable(table.normal(dtype, shape)), "begin": ints(*begin),
                "end": ints(*end), "strides": ints(*strides), "value": table.normal(dtype, dims)})
            place = {"begin": ints(*begin), "end": ints(*end), "strides": ints(*strides),
                     "value": table.normal(dtype, dims)}
            x = table.normal(dtype, shape)
            table.add("ResourceStridedSliceAssign", {"ref": Variable(x, True), **place})
            table.add("TensorStridedSliceUpdate", {"input": x, **place}, gradient=1)
    x = table.normal("float32", (5,))
    place = {"begin": ints(0), "end": ints(3), "strides": ints(1),
             "value": table.normal("float32", (2,))}
    table.bad("StridedSliceAssign", {"ref": Variable(x), **place})
    table.bad("ResourceStridedSliceAssign", {"ref": Variable(x, True), **place})
    table.bad("TensorStridedSliceUpdate", {"input": x, **place})
    x = table.normal("float32", (4, 2))
    for index in ([[4]], [[-1]], [[0, 0, 0]]):
        table.bad("ResourceGatherNd", {"resource": Variable(x, True), "indices": np.array(
            index, "int32")}, {"dtype": Type("float32")}, label=str(index))


@family
def dense_updates(table: Table) -> None:
    for name in UPDATES:
        for dtype in FLOATS:
            for shape in ((), (0,), (7,), (3, 4), (300, 20)):
                for attrs in ATTRIBUTES.get(name, [{}]):
                    _add_updates(table, name, dtype, shape, attrs, None)
        for resource in _kinds(name):
            inputs = _inputs(table, name, "float32", (3, 2), resource, None)
            gradient = "delta" if "delta" in inputs else "grad"
            op = ("Resource" if resource else "") + "Apply" + name
            table.bad(op, {**inputs, gradient: table.normal("float32", (2, 3))}, label="shape")
            number = next(k for k, v in UPDATES[name][1].items() if v != "G")
            table.bad(op, {**inputs, number: table.normal("float32", (2,))}, label="not a scalar")
            empty = Variable(inputs["var"].value, resource, False)
            table.bad(op, {**inputs, "var": empty}, label="uninitialized")


@family
def sparse_updates(table: Table) -> None:
    for name in SPARSE:
        for dtype in FLOATS:
            for kind in ("int32", "int64"):
                for shape, indices in (((5, 3), (4, 0)), ((6,), (1, 5, 2)), ((4, 2, 2), (3,)),
                                       ((4, 2), ())):
                    for attrs in ATTRIBUTES.get(name, [{}]):
                        _add_updates(table, name, dtype, shape, attrs, np.array(indices, kind))
        for resource in _kinds(name):
            op = ("Resource" if resource else "") + "SparseApply" + name
            for index in (4, -1):
                inputs = _inputs(table, name, "float32", (4, 2), resource, ints(0, index))
                table.bad(op, inputs, label=f"index {index}")
            inputs = _inputs(table, name, "float32", (4, 2), resource, ints(0, 1))
            table.bad(op, {**inputs, "indices": ints(0)}, label="number of rows")


def _kinds(name: str) -> tuple[bool, ...]:
    """Whether the variables are references (False), or handles (True)."""
    return (True,) if name in ON_HANDLES_ONLY else (False, True)


def _add_updates(table: Table, name: str, dtype: str, shape: tuple, attrs: dict,
                 indices: np.ndarray | None) -> None:
    for resource in _kinds(name):
        op = ("Resource" if resource else "") + ("Sparse" if indices is not None else "") + \
            "Apply" + name
        inputs = _inputs(table, name, dtype, shape, resource, indices)
        table.add(op, inputs, attrs, tolerance=UPDATE_TOLERANCE)


def _inputs(table: Table, name: str, dtype: str, shape: tuple, resource: bool,
            indices: np.ndarray | None) -> dict:
    slots, numbers = UPDATES[name]
    made: dict[str, Any] = {"var": Variable(table.normal(dtype, shape), resource)}
    fill: Callable = table.positive
    for slot in slots:
        # v - mg² of the centered update must not become negative.
        low, high = (0.1, 0.4) if slot == "mg" else (0.5, 3.0)
        made[slot] = Variable(fill(dtype, shape, low, high), resource)
    rows = shape if indices is None else (*indices.shape, *shape[1:])
    for key, value in numbers.items():
        key = "grad" if key == "delta" and indices is not None else key
        made[key] = table.normal(dtype, rows) if value == "G" else scalar(
            value, "int64" if key == "global_step" else dtype)
    if indices is not None:
        made["indices"] = indices
    return made


@family
def handles(table: Table) -> None:
    """Variables of every dtype and shape are made by every case here; these only read."""
    for dtype in REALS:
        table.add("VariableShape", {"input": Variable(table.normal(dtype, (2, 3)), True)},
                  {"out_type": Type("int64")})
