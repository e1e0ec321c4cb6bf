"""Summary op types, and the functions of ``hpcflow.summary`` that build them."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection, get_collection, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import scalar as scalar_shape
from hpcflow.ops.common.type_sets import ORDERED

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__: list[str] = []  # they are in hpcflow.summary, not in hpcflow

# What does not fit is refused by a step: programs build summaries that they never run.
register_op("ScalarSummary", "tags: string; values: T", "summary: string", f"T: {ORDERED}",
            shape=scalar_shape)
register_op("MergeSummary", "inputs: N * string", "summary: string", "N: int >= 1",
            shape=lambda op: [()])
register_op("HistogramSummary", "tag: string; values: T", "summary: string",
            f"T: {ORDERED} = float", shape=scalar_shape)
register_op("ImageSummary", "tag: string; tensor: T", "summary: string",
            "max_images: int >= 1 = 3; T: {uint8, float, half} = float; "
            "bad_color: tensor = uint8 [255, 0, 0, 255]",
            shape=scalar_shape)
register_op("AudioSummary", "tag: string; tensor: float", "summary: string",
            "sample_rate: float; max_outputs: int >= 1 = 3", shape=scalar_shape,
            deprecated="AudioSummaryV2 takes the sample rate as an input")
register_op("AudioSummaryV2", "tag: string; tensor: float; sample_rate: float", "summary: string",
            "max_outputs: int >= 1 = 3", shape=scalar_shape)
register_op("TensorSummary", "tensor: T", "summary: string",
            'T: type; description: string = ""; labels: list(string) = []; '
            'display_name: string = ""', shape=scalar_shape)
register_op("TensorSummaryV2", "tag: string; tensor: T; serialized_summary_metadata: string",
            "summary: string", "T: type", shape=scalar_shape)
not_differentiable("ScalarSummary", "MergeSummary", "HistogramSummary", "ImageSummary",
                   "AudioSummary", "AudioSummaryV2", "TensorSummary", "TensorSummaryV2")


# ---------------------------------------------------------------- hpcflow.summary


def _clean_tag(name: str) -> str:
    """The name with everything that a scope name cannot have replaced."""
    return re.sub(r"[^-/\w.]", "_", name).lstrip("/")


@contextlib.contextmanager
def scope_of_summary(name: str, family: str | None, values: list,
                   default: str | None = None) -> Iterator[tuple[str, str]]:
    """The tag of a summary, and the name of its operation.

    A `family` is in front of the name, and once more in front of the tag, by which TensorBoard
    groups.
    """
    name = _clean_tag(name)
    if family is None:
        with name_scope(name, default, values) as scope:
            yield scope.rstrip("/"), scope
        return
    family = _clean_tag(family)
    with name_scope(f"{family}/{name}", default, values) as scope:
        yield f"{family}/{scope.rstrip('/')}", scope


def _collected(summary: Tensor, collections: Sequence[str] | None) -> Tensor:
    for key in [GraphKeys.SUMMARIES] if collections is None else collections:
        add_to_collection(key, summary)
    return summary


def scalar(name: str, tensor: Any, collections: Collections | None = None,
           family: str | None = None) -> Tensor:
    """Return a summary (a serialized ``Summary``, a scalar string) of one number.

    `name` is also its tag in TensorBoard; `tensor` is a real scalar; `collections` defaults to
    the collection of all summaries, which :func:`merge_all` merges. TensorBoard shows what has the
    same `family` together; so it does for the other kinds of summaries.
    """
    with scope_of_summary(name, family, [tensor]) as (tag, scope):
        summary = raw_ops.ScalarSummary(tags=tag, values=tensor, name=scope)
    return _collected(summary, collections)


def histogram(name: str, values: TensorLike, collections: Collections | None = None,
              family: str | None = None) -> Tensor:
    """Return a summary of the distribution of the real numbers `values`, of any shape.

    Raises (when run) ``InvalidArgumentError`` for numbers that are not finite.
    """
    with scope_of_summary(name, family, [values], "HistogramSummary") as (tag, scope):
        summary = raw_ops.HistogramSummary(tag=tag, values=values, name=scope)
    return _collected(summary, collections)


def image(name: str, tensor: TensorLike, max_outputs: int = 3,
          collections: Collections | None = None, family: str | None = None) -> Tensor:
    """Return a summary of up to `max_outputs` images, as PNG.

    `tensor` has shape ``[batch, height, width, channels]`` with 1 (gray), 3 (RGB) or 4 (RGBA)
    channels. Pixels of uint8 are taken as they are; floats are scaled, image by image, from
    ``[0, max]`` to 0..255, or with negative ones from ``[-max, max]`` around 128. Pixels that are
    not finite are red.
    """
    with scope_of_summary(name, family, [tensor]) as (tag, scope):
        summary = raw_ops.ImageSummary(
            tag=tag, tensor=tensor, max_images=max_outputs, name=scope)
    return _collected(summary, collections)


def audio(name: str, tensor: TensorLike, sample_rate: TensorLike, max_outputs: int = 3,
          collections: Collections | None = None, family: str | None = None) -> Tensor:
    """Return a summary of up to `max_outputs` pieces of audio, as 16-bit WAV.

    `tensor` has shape ``[batch, frames]`` or ``[batch, frames, channels]`` with values in
    ``[-1, 1]``; `sample_rate` is in hertz.
    """
    with scope_of_summary(name, family, [tensor]) as (tag, scope):
        rate = dtypes.float32.np.type(sample_rate) if not hasattr(sample_rate, "graph") else (
            sample_rate)
        summary = raw_ops.AudioSummaryV2(
            tag=tag, tensor=tensor, max_outputs=max_outputs, sample_rate=rate,
            name=scope)
    return _collected(summary, collections)


def text(name: str, tensor: TensorLike, collections: Collections | None = None) -> Tensor:
    """Return a summary of text, which TensorBoard shows as Markdown.

    `tensor` holds strings; a matrix is shown as a table. Raises ``ValueError`` for another type.
    """
    tensor = convert_to_tensor(tensor)
    if tensor.dtype.base_dtype is not dtypes.string:
        raise ValueError(f"Expected tensor {tensor!r} to have dtype string, got "
                         f"{tensor.dtype.name}")
    with name_scope(_clean_tag(name), None, [tensor]) as scope:
        summary = raw_ops.TensorSummaryV2(
            tag=scope.rstrip("/"), tensor=tensor,
            serialized_summary_metadata=_plugin_metadata("text"), name=scope)
    return _collected(summary, collections)


def _plugin_metadata(plugin: str) -> bytes:
    from tensorboard.compat.proto.summary_pb2 import SummaryMetadata

    metadata = SummaryMetadata()
    metadata.plugin_data.plugin_name = plugin
    return metadata.SerializeToString()


def tensor_summary(name: str, tensor: TensorLike, summary_description: Message | str | None = None,
                   collections: Collections | None = None, summary_metadata: Any = None,
                   family: str | None = None, display_name: str | None = None) -> Tensor:
    """Return a summary that holds a tensor as it is.

    `summary_description` is a text, or a ``SummaryDescription``, found again by
    :func:`get_summary_description`. With a text, `summary_metadata` (a ``SummaryMetadata``),
    `family` or `display_name` the summary tells TensorBoard what is in these and in the
    description.
    """
    from google.protobuf import json_format

    if isinstance(summary_description, str) or any(
            given is not None for given in (summary_metadata, family, display_name)):
        metadata = _metadata(summary_metadata, summary_description, display_name)
        with scope_of_summary(name, family, [tensor]) as (tag, scope):
            summary = raw_ops.TensorSummaryV2(
                tag=tag, tensor=tensor, serialized_summary_metadata=metadata, name=scope)
        return _collected(summary, collections)
    description = "" if summary_description is None else json.dumps(
        json_format.MessageToDict(summary_description))
    with name_scope(_clean_tag(name), None, [tensor]) as scope:
        summary = raw_ops.TensorSummary(tensor=tensor, description=description, name=scope)
    return _collected(summary, collections)


def _metadata(given: Any, description: Any, display_name: str | None) -> bytes:
    from tensorboard.compat.proto.summary_pb2 import SummaryMetadata

    metadata = SummaryMetadata()
    if given is not None:
        metadata.CopyFrom(given)
    if display_name is not None:
        metadata.display_name = display_name
    if description is not None:
        metadata.summary_description = (description if isinstance(description, str)
                                        else description.type_hint)
    return metadata.SerializeToString()


def get_summary_description(node_def: Message) -> Any:
    """Return the ``SummaryDescription`` of a TensorSummary node.

    Raises ``ValueError`` for a node of another type.
    """
    from google.protobuf import json_format
    from tensorboard.compat.proto.summary_pb2 import SummaryDescription

    if node_def.op != "TensorSummary":
        raise ValueError(f"Can't get_summary_description on {node_def.op}")
    encoded = node_def.attr["description"].s.decode()
    return json_format.Parse(encoded or "{}", SummaryDescription())


def merge(inputs: Sequence[Any], collections: Collections | None = None,
          name: str | None = None) -> Tensor:
    """Return one summary that holds all values of several.

    Raises (when run) ``InvalidArgumentError`` if two have the same tag.
    """
    with name_scope(name, "Merge", list(inputs)):
        summary = raw_ops.MergeSummary(inputs=list(inputs), name=name)
    return _collected(summary, collections or ())


def merge_all(key: str = GraphKeys.SUMMARIES, scope: str | None = None,
              name: str | None = None) -> Tensor | None:
    """Return one summary that holds those of collection `key`; None if there are none.

    With `scope` only those whose names begin with what that regular expression matches.
    """
    summaries = get_collection(key, scope)
    return merge(summaries, name=name) if summaries else None
