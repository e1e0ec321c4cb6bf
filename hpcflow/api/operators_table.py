"""The module paths below ``python.ops.linalg`` that are about operators."""

from hpcflow.api.entry import Entry

OPERATORS = {
    **{f"linear_operator{kind}": Entry(("hpcflow.linear_operators",)) for kind in (
        "", "_adjoint", "_block_diag", "_composition", "_diag", "_full_matrix",
        "_householder", "_identity", "_inversion", "_kronecker", "_low_rank_update",
        "_lower_triangular", "_zeros")},
    **{f"linear_operator_{kind}": Entry(("hpcflow.linear_operators",), {
        "_to_complex": "hpcflow.linear_operators.circulant:to_complex"})
       for kind in ("circulant", "toeplitz")},
    "linear_operator_algebra": Entry(("hpcflow.linear_operators.algebra",)),
    "linear_operator_addition": Entry(("hpcflow.linear_operators.addition",), {
        f"_{name}": f"hpcflow.linear_operators.addition:{name}" for name in (
            "AddAndReturnDiag", "AddAndReturnMatrix", "AddAndReturnScaledIdentity",
            "AddAndReturnTriL", "Adder", "Hints")}),
    "linear_operator_util": Entry(("hpcflow.linear_operators.broadcasting",
                                          "hpcflow.linear_operators.checks"), {
        "matmul_with_broadcast": "hpcflow.linear_operators.broadcasting:product"}),
}
