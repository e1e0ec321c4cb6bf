"""Numbers of `hpcflow.host`: when NumPy's BLAS gets all threads, and which memory is aligned."""

# ---- host.blas
#: Multiplications up to which OpenBLAS uses one thread itself.
BLAS_ALONE = 1 << 18
#: Multiplications up to which one thread makes a product: a second one saves less than 30 µs, and a
#: wait for one that does not run takes milliseconds.
BLAS_SMALL = 1 << 22

# ---- host.costs
#: Elements of the arrays that are measured: they stay in the second-level cache.
COSTS_ELEMENTS = 1 << 16
#: Rows of the square matrices that are multiplied.
COSTS_ROWS = 128
#: Calls in a row, and how often so many are measured.
COSTS_CALLS = 4
COSTS_TIMES = 16

# ---- host.free_memory
#: Arrays from which on it is asked whether there is memory: to fill them takes far longer.
MEMORY_LARGE_BYTES = 1 << 28

# ---- host.malloc_policy
#: Arrays of more than this part of the kept memory are handed back: few of them would fill it.
MALLOC_PART = 4

# ---- host.memory
#: Below so many bytes the few tenths of a microsecond of aligning are worth more.
ALIGNED_LEAST_BYTES = 1 << 15
