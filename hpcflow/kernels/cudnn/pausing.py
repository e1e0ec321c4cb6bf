"""A kernel that does nothing for a while: what is launched behind it then runs without gaps.

The host takes longer to launch a small convolution, with what it needs, than the GPU to compute
it. Behind a pause all of it is launched before the first kernel runs, so that events around it
measure the GPU alone.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from hpcflow.host.tuning import gpu as tuning

SOURCE = """
extern "C" __global__ void pause(unsigned long long nanoseconds) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    for (int i = 0; i < (1 << 20); i++) {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        if (now - begin >= nanoseconds) return;
    }
}
"""


@functools.cache
def _kernel() -> Any:
    import cupy

    return cupy.RawKernel(SOURCE, "pause")


def pause() -> None:
    """Keep the current stream busy for longer than a few launches take."""
    _kernel()((1,), (1,), (np.uint64(tuning.CUDNN_PAUSE_NANOSECONDS),))
