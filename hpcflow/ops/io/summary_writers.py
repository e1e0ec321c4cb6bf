"""Op types that write summaries to event files of the tasks that run them."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.shape_inference import scalar
from hpcflow.ops.common.type_sets import ORDERED

__all__: list[str] = []  # hpcflow.contrib.summary builds them

register_op("SummaryWriter", "", "writer: resource",
            "shared_name: string = ''; container: string = ''", shape=scalar, stateful=True)
_OF_WRITERS = {
    "CreateSummaryFileWriter": (
        "logdir: string; max_queue: int32; flush_millis: int32; filename_suffix: string", ""),
    "FlushSummaryWriter": ("", ""),
    "CloseSummaryWriter": ("", ""),
    "WriteSummary": ("step: int64; tensor: T; tag: string; summary_metadata: string", "T: type"),
    "WriteRawProtoSummary": ("step: int64; tensor: string", ""),
    "WriteScalarSummary": ("step: int64; tag: string; value: T", f"T: {ORDERED}"),
    "WriteHistogramSummary": ("step: int64; tag: string; values: T", f"T: {ORDERED} = float"),
    "WriteImageSummary": ("step: int64; tag: string; tensor: T; bad_color: uint8",
                          "max_images: int >= 1 = 3; T: {uint8, float, half} = float"),
    "WriteAudioSummary": ("step: int64; tag: string; tensor: float; sample_rate: float",
                          "max_outputs: int >= 1 = 3"),
    "WriteGraphSummary": ("step: int64; tensor: string", ""),
    "ImportEvent": ("event: string", ""),
}
for _type, (_inputs, _attrs) in _OF_WRITERS.items():
    register_op(_type, "; ".join(filter(None, ("writer: resource", _inputs))), "", _attrs,
                stateful=True)
not_differentiable("SummaryWriter", *_OF_WRITERS)
