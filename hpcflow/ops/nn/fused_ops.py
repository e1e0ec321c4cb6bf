"""Op types that stand for several ops of a user's graph; only passes of the compiler make them."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.shape_inference import unchanged, unknown
from hpcflow.ops.common.window_shapes import FORMAT_2D, PADDING, PADDING_OR_EXPLICIT

_POOL = f"ksize: list(int); strides: list(int); {PADDING}; {FORMAT_2D}"

# relu(BiasAdd(Conv2D(input, filter), bias)), or without the relu.
register_op("_ConvBias", "input: T; filter: T; bias: T", "output: T",
            f"T: {{half, float}}; relu: bool; strides: list(int); {PADDING_OR_EXPLICIT}; "
            f"{FORMAT_2D}; explicit_paddings: list(int) = []; dilations: list(int) = []",
            shape=unknown)
# relu(BiasAdd(MatMul(a, b), bias)), or without the relu.
register_op("_MatMulBias", "a: T; b: T; bias: T", "output: T",
            "T: {float}; relu: bool; transpose_a: bool; transpose_b: bool", shape=unknown)
# A matrix whose rows are the columns of x, its elements in that order.
register_op("_Transposed", "x: T", "y: T", "T: {float}", shape=unknown)
# total + Conv2DBackpropInput(input_sizes, filter, out_backprop)
register_op("_Conv2DBackpropInputSum", "total: T; input_sizes: int32; filter: T; out_backprop: T",
            "output: T", f"T: {{float}}; strides: list(int); {PADDING_OR_EXPLICIT}; {FORMAT_2D}; "
            "use_cudnn_on_gpu: bool = True; explicit_paddings: list(int) = []; "
            "dilations: list(int) = []", shape=unchanged)
# MaxPool that also says, in a form of its kernel's own, where the maxima are; empty if it does not.
register_op("_MaxPool", "input: T", "output: T; places: uint8", f"T: {{float}}; {_POOL}",
            shape=unknown)
register_op("_MaxPoolGrad", "orig_input: T; orig_output: T; grad: T; places: uint8", "output: T",
            f"T: {{float}}; {_POOL}", shape=unchanged)
# ReluGrad(gradients, features), and the BiasAddGrad of that with the channels last.
register_op("_ReluBiasGrad", "gradients: T; features: T", "backprops: T; bias_gradient: T",
            "T: {float}", shape=unknown)
# LRNGrad whose output_image is known to be the LRN of its input_image.
register_op("_LRNGrad", "input_grads: T; input_image: T; output_image: T", "output: T",
            "T: {float}; depth_radius: int; bias: float; alpha: float; beta: float",
            shape=unchanged)
# var -= alpha * MatMul(a, b)
register_op("_MatMulGradientDescent", "var: Ref(T); alpha: T; a: T; b: T", "out: Ref(T)",
            "T: {float}; transpose_a: bool; transpose_b: bool", shape=unchanged)

not_differentiable("_ConvBias", "_MatMulBias", "_Transposed", "_Conv2DBackpropInputSum",
                   "_MaxPool", "_MaxPoolGrad", "_ReluBiasGrad", "_LRNGrad",
                   "_MatMulGradientDescent")
