"""The regions of a graph's step on GPUs: which run as CUDA graphs, and why others do not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tensorboard.compat.proto import config_pb2

from hpcflow.graph.operation import Tensor
from hpcflow.ops.state.variable_lists import global_variables_initializer
from hpcflow.runtime.executor import gpus
from hpcflow.runtime.session.session import Session
from hpcflow.tools.graph_files import read_graph, step_of


def regions_of_step(path: Path, names: Sequence[str]) -> list[str]:
    """Run a step of the graph in a file until its kernels are recorded; a line for each region on
    a GPU, or one that says why there is none.

    Variables get their initial values, placeholders zeros, with 1 for an unknown dimension.

    Raises OSError, ValueError, KeyError or an error of hpcflow if there is no such graph or step.
    """
    graph = read_graph(path)
    named, fed = step_of(graph, names)
    # The value of an operation that has one: it would be kept for nobody else.
    wanted = [x.outputs[0] if getattr(x, "outputs", ()) else x for x in named]
    feeds = {tensor: _zeros(tensor) for tensor in fed}
    for tensor, value in feeds.items():
        tensor.set_shape(value.shape)  # or the step is compiled again meanwhile
    with graph.as_default():
        start = global_variables_initializer()
    config = config_pb2.ConfigProto(allow_soft_placement=True)
    with Session(graph=graph, config=config) as session:
        devices: list[Any] = [d for d in session._engine.task.devices if d.type == "GPU"]
        if not devices:
            return [f"no GPU is used: {gpus.why_none()}"]
        session.run(start)
        before = [region for device in devices for region in device.recorded]
        for _ in range(3):  # the second is recorded
            session.run(wanted, feeds)
        return [region.describe() for device in devices for region in device.recorded
                if region not in before] or [
            "no part of the step is a region on the GPU"]


def _zeros(tensor: Tensor) -> np.ndarray:
    shape = tensor.shape.as_list() if tensor.shape.ndims is not None else []
    return np.zeros([1 if size is None else size for size in shape],
                    tensor.dtype.base_dtype.as_numpy_dtype)
