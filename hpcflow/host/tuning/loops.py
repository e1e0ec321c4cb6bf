"""Numbers of `hpcflow.loops`: when a loop is compiled, and how its work is cut for threads."""

# ---- loops.cache
#: Compiled loops on disk, of which the oldest are removed: more than many programs have.
CACHE_MOST_FILES = 4096

# ---- loops.compiling
#: Spent on a loop before it is compiled, which takes about as long or a few times that.
COMPILE_WORTH_SECONDS = 0.01
#: Programs that are remembered: more than a process has.
COMPILE_MOST_PROGRAMS = 4096

# ---- loops.llvm_plan
#: Columns that are written out where rows are reduced, and so few do not fill vectors.
FORM_MOST_UNROLLED = 31
#: Columns up to which rows that need the same numbers of columns are computed together.
FORM_MOST_GROUPED = 1024

# ---- loops.parallel_for
#: Below so many bytes a second thread costs more than it brings.
PARALLEL_LARGE_BYTES = 1 << 20
#: A thread that is late, or that the machine lets wait, takes fewer of them.
PARALLEL_BLOCKS_PER_THREAD = 8
#: Of a block: a shorter one is over before the next is taken.
PARALLEL_LEAST_BYTES = 1 << 15
#: Of a block: it should stay in the second-level cache.
PARALLEL_MOST_BYTES = 1 << 18
#: Of rows that are reduced apart, where there are many, so that threads share them.
PARALLEL_SUM_BLOCKS = 16
#: Elements below which all rows are one such block.
PARALLEL_SUM_LEAST = 1 << 16

# ---- loops.service
#: So long the end of a process waits for what is being compiled in it: most loops take a tenth.
COMPILER_END_SECONDS = 5.0

# ---- loops.strided_copy
#: Below so many bytes NumPy has copied before a plan is found.
COPY_LARGE_BYTES = 1 << 17
#: From so many bytes on a second thread is worth waking.
COPY_SHARED_BYTES = 1 << 20
#: Runs of so many bytes NumPy copies as fast.
COPY_LONG_BYTES = 1 << 6
#: Elements of a run that one job copies: long beside the handing over.
COPY_CHUNK = 1 << 14
#: Runs, or lines of a transposition, that one job copies.
COPY_LINES = 64

# ---- loops.over_time
#: Of the places that are held between the runs of a loop.
OVER_TIME_MOST_HELD_BYTES = 1 << 24
