"""Numbers of `hpcflow.compiler`: what is folded, fused, packed, and where loops pay."""

# ---- compiler.ir.sizes
#: What a dimension known only at run time counts as: the usual size of a batch.
SIZES_UNKNOWN_DIMENSION = 32

# ---- compiler.distribute.colocate_loop_variables
#: Rounds until no variable of a loop moves any more: two are usual, a circle would not end.
COLOCATE_ROUNDS = 20

# ---- compiler.distribute.late_receives
#: Of a value that is worth receiving late: smaller ones do not show in the peak.
LATE_LEAST_BYTES = 1 << 18
#: Of the peak of memory: less is not worth a wait.
LATE_LEAST_GAIN = 0.05
#: What a message takes, about, however short, on a busy machine.
LATE_MESSAGE_SECONDS = 2e-4
#: What a slow link carries, so that a late value is still there in time.
LATE_BYTES_PER_SECOND = 1e9

# ---- compiler.distribute.packs
#: What a pack holds at most: longer messages are better on their way one by one.
PACK_MOST_BYTES = 1 << 19
#: For how long its first value may wait for its last: about as long as some messages take.
PACK_MOST_SECONDS = 3e-4

# ---- compiler.distribute.partition
#: A value of up to so many bytes takes about as long as the message of a control edge.
EDGE_SHORT_BYTES = 1 << 20

# ---- compiler.distribute.schedule
#: Of a value that nobody needs to wait for: its message is as short as any.
SCHEDULE_SMALL_BYTES = 1024
#: Bytes at the peak of a part from which on another order is tried.
SCHEDULE_LARGE_BYTES = 1 << 20
#: The part of the peak that the other order must save.
SCHEDULE_LEAST_GAIN = 0.05

# ---- compiler.emit.codegen
#: Pieces of compiled code that are kept: more than the steps of a program have.
CODE_CACHE_MOST = 4096

# ---- compiler.emit.executable
#: A value up to this size is a short message: MPI takes it in before its receive is posted.
MESSAGE_SHORT_BYTES = 4096

# ---- compiler.emit.items
#: A loop of so many parallel iterations loses little if one of them is left out.
FEW_PARALLEL_ITERATIONS = 4

# ---- compiler.emit.recordable
#: Ops of a region from which on it pays to launch their kernels as one.
RECORDED_FEWEST = 8

# ---- compiler.emit.writer
#: Between two looks at whether a running loop has to stop, about: nobody notices so short a wait.
LOOP_LOOK_SECONDS = 0.002
#: Between two such looks, however short the iterations were: the next may be longer.
LOOP_MOST_ITERATIONS = 1 << 16

# ---- compiler.fuse.batch_products
#: Fewer steps of a loop are not worth a product of all.
BATCH_LEAST_STEPS = 3
#: Products with so many rows BLAS does as fast step by step.
BATCH_MANY_ROWS = 128
#: Elements of the weights; of smaller ones a product costs little beside the other calls.
BATCH_LARGE = 1 << 14

# ---- compiler.fuse.fuse_gradients
#: Elements of a gradient below which ufuncs, which may join others, are as fast.
GRADIENT_LARGE = 1 << 14

# ---- compiler.fuse.fuse_layers
#: What a number of rows that is only known at run time is taken for: a usual batch.
LAYER_USUAL_ROWS = 64

# ---- compiler.fuse.fuse_updates
#: Elements of a gradient below which the call costs more than the memory.
UPDATE_LARGE = 1 << 16
UPDATE_LARGE_GPU = 1 << 20

# ---- compiler.fuse.sum_products
#: Fewer terms are not worth the copies of their factors.
SUM_LEAST_TERMS = 3

# ---- compiler.native.accumulate_gemm
#: Of a block's products, about: long beside what it costs to hand them over.
ACCUMULATE_BLOCK_FLOPS = 3e8
#: Iterations of a block: the values of all are kept until then.
ACCUMULATE_MOST_STEPS = 64

# ---- compiler.native.concurrent_gemm
#: Operations of a product that takes much longer (a millisecond) than a thread needs to wake up.
CONCURRENT_LARGE = 5e7

# ---- compiler.native.launcher
#: Functions that are worth a call, over arrays that are not large.
LINES_FEWEST = 3
#: Lines of which a loop compiles quickly.
LINES_MOST = 200
#: From the first line of a loop to the last: values from further away are not in the cache.
LINES_REACH = 256
#: Elements from which on a single line is worth a loop, or several threads.
LINES_LARGE = 1 << 17
#: Arrays of all elements that a loop reads: more streams than the hardware fetches ahead are slow.
LINES_MOST_ARRAYS = 16
#: All arrays that a loop reads; the others are short rows in the cache.
LINES_MOST_INPUTS = 32
#: Arrays that a loop writes.
LINES_MOST_OUTPUTS = 16
#: Calls of NumPy that take as long as that of a line which broadcasts or reduces.
LINES_CALLS = 5
#: Calls of NumPy that take as long as the call of a group, of one shape or of rows and columns.
LINES_FLAT_CALL, LINES_CALL = 10, 25

# ---- compiler.native.native_layout
#: Rows that a thread should have.
LAYOUT_FEWEST_ROWS = 8
#: Into which the fewest rows of a thread are cut: the part of each begins at such a piece.
LAYOUT_UNITS = 4

# ---- compiler.native.native_loops
#: Shapes for which a loop remembers where its values lie.
LOOP_MOST_LAYOUTS = 16
#: Of a loop that is worth places for its values.
LOOP_FEWEST_ITERATIONS = 2
#: Of all iterations line by line: what the places of the values cost, about.
LOOP_LEAST_SECONDS = 2e-4
#: Calls of NumPy that take as long as a line that is run by Python.
LOOP_LINE_CALLS = 3
#: Kept between two looks at whether the step has to stop, at most.
LOOP_CHUNK_BYTES = 1 << 26
#: What the products between two such looks take, about.
LOOP_CHUNK_SECONDS = 0.02
#: Iterations between two such looks, at most.
LOOP_CHUNK_STEPS = 256

# ---- compiler.native.native_steps
#: Lines of a loop whose steps are made one after the other: they compile quickly.
STEPS_MOST_LINES = 200
#: Iterations of such a loop whose values are found ahead of it: the list stays small.
STEPS_MOST_ITERATIONS = 4096

# ---- compiler.regions.host_values
#: Elements up to which a value computed from values of the host alone stays there.
HOST_FEW = 64

# ---- compiler.rewrite.cse
#: Of a constant that is compared by content: comparing larger ones costs more than it finds.
CSE_SMALL_BYTES = 1024

# ---- compiler.rewrite.fold
#: Of a folded value that is larger than what it is made of: the plan travels to other ranks.
FOLD_MOST_BYTES = 1 << 18

# ---- compiler.rewrite.refine_shapes
#: Of a value that is made a constant: shapes and indices are no longer.
REFINE_MOST_ELEMENTS = 64
#: Rounds until no shape is better known: a loop of shapes would not end.
REFINE_MOST_ROUNDS = 16

# ---- compiler.rewrite.simplify
#: Of a constant that is looked at: whether all are 0 or 1 must be found quickly.
SIMPLIFY_MOST_ELEMENTS = 4096

# ---- loops.cuda
#: Rows that a thread sums before the rows are split among more blocks.
CUDA_ROWS_EACH = 16
#: Blocks of 256 threads that fill a GPU: eight for each of its 132 processors.
CUDA_MOST_BLOCKS = 1056
#: Elements from which on positions have 64 bits.
CUDA_LARGE = 1 << 30
#: Plans of one launch that are kept, each for certain numbers of rows.
CUDA_MOST_PLANS = 64
#: Counters of tiles that are made at once.
CUDA_COUNTERS = 4096

# ---- loops.cuda_code
#: Of a row that each thread keeps in registers, where several passes read it.
CUDA_KEPT_BYTES = 160

# ---- compiler.device
#: Lines of one program; a longer one has too many values at a time.
CUDA_MOST_LINES = 96
#: Arrays of the updates of one launch: all of their addresses are parameters of the kernel.
CUDA_MOST_ARRAYS = 160
