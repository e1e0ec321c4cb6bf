"""The programs of `bench gpu` in PyTorch, on a GPU where there is one; see `programs.gpu`.

With ``graphs`` a step is recorded once, as a CUDA graph, and launched as one.
"""

from __future__ import annotations

import gc
import importlib

import torch as library  # type: ignore[import-not-found]

WARMING = 3  # steps before the recording


def open_case(torch, case, options):
    """Make a case: (function that runs the steps, close)."""
    on_gpu = torch.cuda.is_available()
    _free(torch)
    torch.set_default_device("cuda" if on_gpu else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = options["tf32"]
    torch.backends.cudnn.allow_tf32 = options["tf32"]
    program = importlib.import_module(options["program"] + "_torch")
    made = program.open_case(torch, case, options["options"])
    feed, train = made if options["program"] == "gpu_models" else (lambda: None, made[0])
    if options["graphs"]:
        train = recorded(torch, train)
    feed()
    train()
    _free(torch)

    def steps():
        for _ in range(options["repeat"]):
            feed()
            train()
        if on_gpu:
            torch.cuda.synchronize()

    return steps, lambda: _free(torch)


def recorded(torch, train):
    """The launch of a graph of what `train()` does."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARMING):
            train()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        train()
    return graph.replay


def _free(torch):
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_bytes():
    """The memory of the GPU that the allocator has taken since the case is open."""
    return library.cuda.max_memory_reserved() if library.cuda.is_available() else 0
