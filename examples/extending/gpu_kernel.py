"""A kernel in CUDA C through CuPy's RawKernel, beside one for the CPU.

Of several kernels of an op the one for the device type of the node is taken. The array module of
the device, ``node.xp``, is CuPy where GPUs are used.
"""

import numpy as np

import hpcflow as hf
from hpcflow.extending import kernel, not_differentiable, raw_ops, register_op, unchanged

register_op("Xorshift", "x: int32", "y: int32", shape=unchanged)
not_differentiable("Xorshift")

SOURCE = """
extern "C" __global__ void xorshift(const unsigned int* x, unsigned int* y, unsigned int n) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned int v = x[i];
        v ^= v << 13; v ^= v >> 17; v ^= v << 5;
        y[i] = v;
    }
}
"""
BLOCK = 256


@kernel("Xorshift", device="CPU", fresh=True)
def _xorshift(node):
    def run(x):
        v = np.asarray(x).astype(np.uint32)
        for left, shift in ((True, 13), (False, 17), (True, 5)):
            v ^= v << np.uint32(shift) if left else v >> np.uint32(shift)
        return v.astype(np.int32)

    return run


@kernel("Xorshift", device="GPU", fresh=True)
def _xorshift_gpu(node):
    cupy = node.xp
    function = cupy.RawKernel(SOURCE, "xorshift")  # compiled once, when a step is

    def run(x):
        x = cupy.ascontiguousarray(x)
        y = cupy.empty_like(x)
        if x.size:
            # On the current stream: the work is queued, nothing waits for it here.
            function(((x.size + BLOCK - 1) // BLOCK,), (BLOCK,), (x, y, np.uint32(x.size)))
        return y

    return run


def main():
    with hf.Session() as session:
        print(session.run(raw_ops.Xorshift(hf.constant([1, 2, 3]))))


if __name__ == "__main__":
    main()
