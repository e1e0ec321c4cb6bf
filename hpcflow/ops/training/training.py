"""Op types of the training updates: Apply*, SparseApply* and their forms on resource handles.

Each updates a variable and its slots in place; the formulas are those of ``kernels.update_rules``.
"""

from __future__ import annotations

from collections.abc import Callable

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import merge_dim, merge_dims, show, with_rank
from hpcflow.ops.common.type_sets import SUMMED

__all__: list[str] = []

_GRADIENTS = ("grad", "delta")

# name -> inputs of the dense form in order; a leading "*" marks variables; the position of the
# sparse form's indices is marked in a second table, as it differs between the types.
_DENSE = {
    "GradientDescent": "*var alpha delta",
    "Momentum": "*var *accum lr grad momentum",
    "Adagrad": "*var *accum lr grad",
    "AdagradDA": "*var *gradient_accumulator *gradient_squared_accumulator grad lr l1 l2 "
                 "global_step",
    "ProximalGradientDescent": "*var alpha l1 l2 delta",
    "ProximalAdagrad": "*var *accum lr l1 l2 grad",
    "Ftrl": "*var *accum *linear grad lr l1 l2 lr_power",
    "Adam": "*var *m *v beta1_power beta2_power lr beta1 beta2 epsilon grad",
    "RMSProp": "*var *ms *mom lr rho momentum epsilon grad",
    "CenteredRMSProp": "*var *mg *ms *mom lr rho momentum epsilon grad",
    "Adadelta": "*var *accum *accum_update lr rho epsilon grad",
    "AdagradV2": "*var *accum lr epsilon grad",
    "FtrlV2": "*var *accum *linear grad lr l1 l2 l2_shrinkage lr_power",
    "AdaMax": "*var *m *v beta1_power lr beta1 beta2 epsilon grad",
    "AddSign": "*var *m lr alpha sign_decay beta grad",
    "PowerSign": "*var *m lr logbase sign_decay beta grad",
    "AdamWithAmsgrad": "*var *m *v *vhat beta1_power beta2_power lr beta1 beta2 epsilon grad",
    "KerasMomentum": "*var *accum lr grad momentum",
}
_SPARSE = {
    "Momentum": "*var *accum lr grad indices momentum",
    "Adagrad": "*var *accum lr grad indices",
    "AdagradDA": "*var *gradient_accumulator *gradient_squared_accumulator grad indices lr l1 l2 "
                 "global_step",
    "ProximalGradientDescent": "*var alpha l1 l2 grad indices",
    "ProximalAdagrad": "*var *accum lr l1 l2 grad indices",
    "Ftrl": "*var *accum *linear grad indices lr l1 l2 lr_power",
    "RMSProp": "*var *ms *mom lr rho momentum epsilon grad indices",
    "CenteredRMSProp": "*var *mg *ms *mom lr rho momentum epsilon grad indices",
    "Adadelta": "*var *accum *accum_update lr rho epsilon grad indices",
    "AdagradV2": "*var *accum lr epsilon grad indices",
    "FtrlV2": "*var *accum *linear grad indices lr l1 l2 l2_shrinkage lr_power",
    "KerasMomentum": "*var *accum lr grad indices momentum",
}
_NESTEROV = "use_nesterov: bool = false"
_EXTRA_ATTRS = {"Adam": _NESTEROV, "Momentum": _NESTEROV, "KerasMomentum": _NESTEROV,
                "AdagradV2": "update_slots: bool = true",
                "FtrlV2": "multiply_linear_by_lr: bool = false"}
_ON_HANDLES_ONLY = ("AdamWithAmsgrad", "KerasMomentum")

# ---------------------------------------------------------------- shapes


def _shape_function(names: list[str], sparse: bool, resource: bool) -> Callable:
    variables = [i for i, n in enumerate(names) if n.startswith("*")]
    gradient = next(i for i, n in enumerate(names) if n in _GRADIENTS)
    indices = names.index("indices") if sparse else -1
    scalars = [i for i in range(len(names)) if i not in (*variables, gradient, indices)]

    def shape(op: Operation) -> list[Dims]:
        for i in scalars:
            if op.input_dims(i):
                raise ValueError(f"{names[i]} must be a scalar, but has shape "
                                 f"{show(op.input_dims(i))}")
        dims = _variable_dims(op, 0, resource)
        for i in variables[1:]:
            dims = merge_dims(dims, _variable_dims(op, i, resource))
        if sparse:
            _check_rows(dims, op.input_dims(gradient), op.input_dims(indices))
        else:
            dims = merge_dims(dims, op.input_dims(gradient))
        return [] if resource else [dims]

    return shape


def _variable_dims(op: Operation, index: int, resource: bool) -> Dims:
    if not resource:
        return op.input_dims(index)
    return (op.inputs[index]._handle_data or (None, None))[1]


def _check_rows(var: Dims, grad: Dims, indices: Dims) -> None:
    """The gradient holds one row of the variable for each index."""
    count = with_rank(indices, 1, "indices")[0]
    if grad is None:
        return
    if not grad or var is not None and len(var) != len(grad):
        raise ValueError(f"the gradient's rows {show(grad)} must be rows of the variable "
                         f"{show(var)}")
    merge_dim(count, grad[0])
    if var is not None:
        merge_dims(var[1:], grad[1:])


# ---------------------------------------------------------------- registration


def _register(name: str, inputs: str, sparse: bool, resource: bool) -> None:
    names = inputs.split()
    op_type = f"{'Resource' if resource else ''}{'Sparse' if sparse else ''}Apply{name}"
    attrs = [f"T: {SUMMED}"]
    if sparse:
        attrs.append("Tindices: {int32, int64}")
    attrs.append("use_locking: bool = false")
    if name in _EXTRA_ATTRS:
        attrs.append(_EXTRA_ATTRS[name])
    register_op(op_type, "; ".join(_argument(n, resource) for n in names),
                "" if resource else "out: Ref(T)", "; ".join(attrs), stateful=resource,
                shape=_shape_function(names, sparse, resource))
    not_differentiable(op_type)


def _argument(name: str, resource: bool) -> str:
    if name.startswith("*"):
        return f"{name[1:]}: {'resource' if resource else 'Ref(T)'}"
    fixed = {"indices": "Tindices", "global_step": "int64"}
    return f"{name}: {fixed.get(name, 'T')}"


for _resource in (False, True):
    for _sparse, _types in ((False, _DENSE), (True, _SPARSE)):
        for _name, _inputs in _types.items():
            if _resource or _name not in _ON_HANDLES_ONLY:
                _register(_name, _inputs, sparse=_sparse, resource=_resource)
