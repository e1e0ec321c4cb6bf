"""Differences from the reference that are meant, with the reason; found again, they pass."""

from __future__ import annotations

import re

# Op type (a pattern), what the difference reads like (a pattern), why it stands.
STATED = (
    ("Resource(Gather(Nd)?|Scatter.*|CountUpTo|StridedSliceAssign)|VariableShape",
     "FailedPrecondition.*NotFoundError",
     "the reference finds no variable where ours finds one without a value"),
    ("Dilation2D(BackpropInput)?", r"differs by .*-inf|^output 0: differs by \S+e\+(06|15) eps",
     "the reference takes the least number for the maximum of nothing, ours is minus infinity"),
    ("I?RFFT(2D|3D)?", "differs by .*against|only the reference .*Input dimension",
     "of empty input the reference leaves its output unset, or refuses the length first"),
    ("(Static)?RegexFullMatch", "is not", "the reference matches characters, ours bytes"),
    ("SparseConcat|SparseReduce(Sum|Max)",
     "errors differ: ours run .*InvalidArgument.*InternalError",
     "the reference finds indices out of bounds only when it has overflown"),
    ("MaxPoolWithArgmax", "tensor_in must not be empty", "ours is empty too"),
    ("FractionalMaxPoolGrad", "tensor_out_dup is not the same",
     "the reference pools again to see whether what it was given is what pooling gave"),
    ("ClipByValue", "only the reference .*must be either of the same shape",
     "built of a minimum and a maximum, which broadcast, as in 1.0"),
    ("Mean", r"nan\+nanj against 0", "the reference's complex mean of nothing is zero"),
    ("SparseSegment.*WithNumSegments", "only the reference refuses it .*(vector|not increasing)",
     "built of a gather and sums by number, which take ids in any order"),
    ("UnravelIndex", "only the reference refuses it|^output 0: .* is not",
     "built of divisions, which find no place to be outside"),
    ("Einsum", "occurs twice", "einsum of 1.0 does not take a letter twice"),
    ("ParallelConcat", "was said to be|fully defined",
     "built of rows; a row that is missing is not seen"),
    ("FusedBatchNorm(V2|V3)?", r"output [12]: differs by inf .*nan",
     "the reference's moments of an empty batch are undefined also outside of training"),
    ("Reverse", "Invalid input first dimension", "the reference refuses an empty dimension"),
    ("TruncateDiv|TruncateMod", "Unexpected error in binary operator",
     "the reference calls a division by zero internal here, elsewhere an invalid argument"),
    ("Round", r"^output 0: .* is not \[*0", "integers are round; the reference makes them zero"),
    ("Erf", r"output 0: differs by inf.*-0\. ", "the reference has no float64 erf of infinity"),
    ("FusedBatchNorm(V2|V3)?", "^output [345]: ",
     "what is reserved for the gradient is unspecified, and unset outside of training"),
    ("SoftmaxCrossEntropyWithLogits", "(gradient|second) 1: differs",
     "in the gradient by the labels the reference leaves out what flows to the second output"),
    ("ResourceScatter.*", "only ours refuses it .*updates must have the shape",
     "the reference does not check the shape of the updates"),
    ("IsVariableInitialized", "output 0: False is not True",
     "the reference calls empty variables initialized"),
    ("ResourceApply.*|ResourceSparseApply.*|Assign(Add|Sub)VariableOp",
     "ours run .*FailedPrecondition.*the reference's run",
     "the reference has no name for a variable without a value; a read refuses it as ours"),
    ("(Batch)?(Svd|SelfAdjointEigV2)", r"output [12]: has shape \(0,\), the reference's \(\)",
     "the reference declares [0] for vectors that it does not compute, and leaves them unset"),
    ("(Batch)?MatrixTriangularSolve", "only ours .*not invertible",
     "1.0 refuses a zero on the diagonal; the reference now divides by it"),
    ("DecodePng|DecodeImage", r"output 0: \[\[\[ *0 +0 +0 +255\].* is not \[\[\[ *0 +0 +0 +1\]",
     "the reference makes pixels of 1 bit nearly transparent where alpha is added"),
    ("DecodeGif", "only ours .*truncated",
     "the reference now returns the frames before the damage, 1.0 refuses the file"),
    ("SampleDistortedBoundingBox", "only ours .*height and width must be positive",
     "the reference divides by the size of an empty image"),
    ("(Batch)?Cholesky", "only ours .*not successful",
     "the reference decomposes NaN into NaN"),
    ("SerializeSparse", "only ours refuses it",
     "the reference writes parts that do not fit each other"),
    ("EnsureShape", "only the reference refuses it .*Shape must be rank -1",
     "the reference refuses the shape of unknown rank, which fits everything"),
    ("TridiagonalSolve", r"(gradient|second) \d: differs by .*j",
     "the reference does not conjugate in this gradient, as it does in that of MatrixSolve"),
    ("MulNoNan|Xdivy|Xlogy|Xlog1py", r"gradient \d: differs by .*j",
     "the reference does not conjugate in these gradients, as in those of Mul, Div and Log"),
    ("QuantizeAndDequantizeV[24]", "only the reference refuses it .*must be a scalar",
     "the reference takes a given range for each channel in the third version alone"),
    ("QuantizeAndDequantizeV3", "only the reference refuses it .*Axis requested is larger",
     "the reference's third version takes no scalar"),
    ("StringNGrams", r"output 0: .* is not \[b''", "without splits the reference sets no strings"),
    ("(Batch)?MatrixBandPart", "num_lower must be negative or less or equal",
     "the reference refuses a band wider than the matrix, 1.0 does not"),
    ("(Resource)?SparseApplyAdagradDA", r"(output|variable) 0: differs by \S+e\+15 eps.* 0\.  ",
     "after a negative number of steps the reference makes rows zero, but no single elements"),
)  # fmt: skip


def reason(op: str, problem: str) -> str | None:
    """Why `op` may differ in this way, or None."""
    for types, text, why in STATED:
        if re.fullmatch(types, op) and re.search(text, problem, re.DOTALL):
            return why
    return None
