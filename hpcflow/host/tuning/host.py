"""Numbers of `hpcflow.host`: when NumPy's BLAS gets all threads, and which memory is aligned."""

# ---- host.blas
#: Multiplications up to which OpenBLAS uses one thread itself.
BLAS_ALONE = 1 << 18
#: Multiplications up to which it is made to: waits for threads that do not run cost more.
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

# ---- host.trials
#: Uses before the first trial: the first ones are slow.
TRIAL_WARM = 8
#: Periods of a turn: a single one is too short to be measured.
TRIAL_PERIODS = 16
#: Turns of each kind in a trial: their medians are compared.
TRIAL_TURNS = 5
#: Of the time that the first way takes: what the second must be faster than.
TRIAL_GAIN = 0.95
#: Times what is usual: a turn, or a period, of the second way that is so slow is a fault.
TRIAL_STUCK = 10
#: Slow periods, less some for every other one, that end the second way: single ones happen.
TRIAL_FAULTS = 3.0
#: Of a slow period, what another makes good.
TRIAL_FORGIVEN = 0.25
#: Before the second trial.
TRIAL_WAIT_SECONDS = 0.25
#: Between two trials; doubled while they say the same.
TRIAL_LONGEST_WAIT_SECONDS = 4.0
#: Without a use of what is on trial: another may begin.
TRIAL_GIVEN_UP_SECONDS = 1.0
#: Keys that are remembered: more than the steps of a program have.
TRIAL_MOST_KEYS = 1024
