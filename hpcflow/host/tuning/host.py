"""Numbers of `hpcflow.host`: when NumPy's BLAS gets all threads, and which memory is aligned."""

# ---- host.blas
#: Multiplications up to which OpenBLAS uses one thread itself.
BLAS_ALONE = 1 << 18
#: Multiplications up to which it is made to: waits for threads that do not run cost more.
BLAS_SMALL = 1 << 22
#: Products, one soon after the other, before all threads are tried: a few may be a chance.
BLAS_DENSE = 32
#: Of the time that one thread takes: what all must be faster than, to be worth the cores.
BLAS_GAIN = 0.9
#: Slow products, less some for every fast one, that end a trial: single ones happen.
BLAS_FAULTS = 3.0
#: Of a slow product, what a fast one makes good.
BLAS_FORGIVEN = 0.25
#: Times what one thread takes: the machine has other work.
BLAS_STUCK = 10
#: Before the second trial: some products.
BLAS_WAIT_SECONDS = 0.005
#: Between two trials, at most; the wait is doubled by each that fails.
BLAS_LONGEST_WAIT_SECONDS = 2.0
#: Fast products after which the next wait is a short one again.
BLAS_KEPT = 200
#: Shapes of products that are remembered: more than the steps of a program have.
BLAS_MOST_SHAPES = 1024
#: Multiplications of a product beside others: one thread does them in about a millisecond.
BLAS_LARGEST_BESIDE = 1 << 26
#: For how long a core has products that were put off, about.
BLAS_PUT_OFF_SECONDS = 0.002

# ---- host.free_memory
#: Arrays from which on it is asked whether there is memory: to fill them takes far longer.
MEMORY_LARGE_BYTES = 1 << 28

# ---- host.malloc_policy
#: Arrays of more than this part of the kept memory are handed back: few of them would fill it.
MALLOC_PART = 4

# ---- host.memory
#: Below so many bytes the few tenths of a microsecond of aligning are worth more.
ALIGNED_LEAST_BYTES = 1 << 15
