"""Text with values put in, and its output."""

from __future__ import annotations

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import no_outputs, scalar

__all__: list[str] = []

register_op("StringFormat", "inputs: T", "output: string",
            'T: list(type) >= 0; template: string = "%s"; placeholder: string = "%s"; '
            "summarize: int = 3", shape=scalar)
register_op("PrintV2", "input: string", "", 'output_stream: string = "stderr"; end: string = "\n"',
            stateful=True, shape=no_outputs)
not_differentiable("StringFormat", "PrintV2")


def string_format(template: str, inputs: TensorLike, placeholder: str = "{}", summarize: int = 3,
                  name: str | None = None) -> Tensor:
    """Return `template` with tensors put in, as text: a scalar string.

    Args:
        template: a string with one placeholder for each input.
        inputs: a tensor or a list of tensors.
        placeholder: what is replaced, in order.
        summarize: elements shown at the beginning and the end of a dimension; -1 for all.
        name: name of the operation.

    Raises:
        ValueError: for another number of placeholders than inputs.
    """
    tensors = [convert_to_tensor(x) for x in (
        inputs if isinstance(inputs, (list, tuple)) else [inputs])]
    if template.count(placeholder) != len(tensors):
        raise ValueError(f"{template.count(placeholder)} placeholder(s) in template does not "
                         f"match {len(tensors)} tensor(s) provided as input")
    return raw_ops.StringFormat(inputs=tensors, template=template, placeholder=placeholder,
                                summarize=summarize, name=name)
