"""Text with values put in, and its output."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.shape_inference import no_outputs, scalar

__all__: list[str] = []

register_op("StringFormat", "inputs: T", "output: string",
            'T: list(type) >= 0; template: string = "%s"; placeholder: string = "%s"; '
            "summarize: int = 3", shape=scalar)
register_op("PrintV2", "input: string", "", 'output_stream: string = "stderr"; end: string = "\n"',
            stateful=True, shape=no_outputs)
not_differentiable("StringFormat", "PrintV2")
