"""Numbers of `hpcflow.kernels`: from which sizes on a kernel goes another way."""

# ---- kernels.arrays.gathering
#: Of rows that are gathered by several threads.
GATHER_LARGE_BYTES = 1 << 20
#: Places from which on two passes over them are worth it.
GATHER_MANY = 1 << 14

# ---- kernels.arrays.matrix_parts
#: Elements that are copied in less time than a mask takes.
MATRIX_LONG_ROW = 256
#: Rows that are copied, each a few elements, while one diagonal is.
MATRIX_DIAGONAL_ROWS = 8

# ---- kernels.arrays.partition
#: Elements that are sorted faster than the loop is called.
PARTITION_FEW = 32
#: Entries of the first table of places; each that is too small is followed by one 4 times as long.
PARTITION_LEAST_TABLE = 1 << 10

# ---- kernels.common.background
#: For what waits rather than computes: files and processes of other programs.
BACKGROUND_THREADS = 4

# ---- kernels.common.indices
#: Indices up to which a set of Python finds duplicates faster than a sort of NumPy.
INDICES_SMALL = 64
#: Repetitions of one index after which a loop over rounds is slower than one over elements.
INDICES_MOST_ROUNDS = 16
#: Columns from which on whole rows are worth the looking up.
INDICES_WIDE = 8
#: Of updates from which on two threads are worth it: each looks at all row numbers.
INDICES_LARGE_BYTES = 1 << 18
#: Elements that are updated together, so that their numbers stay in the cache.
INDICES_AT_ONCE = 1 << 15

# ---- kernels.common.parallel
#: About half of what the second-level cache of a core holds.
BLOCK_BYTES = 1 << 19
#: Blocks of rows touched once need not stay in cache: fewer calls, fewer handings over.
BLOCK_ONCE_BYTES = 1 << 21
#: Work on so many bytes is over in less time than a few wakings of a thread take.
BLOCK_SHORT_BYTES = 1 << 24

# ---- kernels.common.windows
#: Of columns that are made at once: about what the caches hold.
WINDOW_BLOCK_BYTES = 4 << 20

# ---- kernels.compiled.array_loops
#: Elements from which on a loop is worth it.
ARRAY_LOOP_LARGE = 1 << 14

# ---- kernels.compiled.pooling_loops
#: Of a window each of whose elements is written out: registers hold the places of so many.
POOLING_MOST_ELEMENTS = 9

# ---- kernels.compiled.row_loops
#: Elements of a row that are reduced at once: more in one sum would lose digits.
ROW_LOOP_LONGEST = 1 << 13

# ---- kernels.compiled.small_products
#: Multiplications of one product: a larger one BLAS does faster than its call costs.
SMALL_PRODUCT_MOST = 1 << 10
#: Rows of one factor that are multiplied: each is some instructions.
SMALL_PRODUCT_MOST_VECTORS = 1 << 8
#: Products that are worth a loop.
SMALL_PRODUCT_FEWEST = 64

# ---- kernels.io.dataset_files
#: Decoded together: the calls of NumPy cost little for each then.
DATASET_ROWS = 256

# ---- kernels.late_errors
#: Of a value whose copy together with the flags costs less than a second transfer.
LATE_ERROR_SMALL_BYTES = 1 << 16

# ---- kernels.linalg.linalg
#: Rows of a block of a triangular solution: the rest is products, which are fast.
LINALG_BLOCK = 64

# ---- kernels.math.cumulative
#: Elements of a row from which on a call for each row is quicker.
CUMULATIVE_WIDE = 64

# ---- kernels.math.large_reductions
#: From which on blocks on several threads pay.
REDUCTION_LARGE_BYTES = 1 << 17
#: Elements of an array of a device from which on generated kernels reduce it.
REDUCTION_DEVICE = 1 << 14
#: Kernels of one op, for different lengths of rows; what comes later is left to the array module.
REDUCTION_PROGRAMS = 32
#: About half of what the second-level cache of a core holds.
REDUCTION_BLOCK_BYTES = 1 << 19
#: Elements of a row that NumPy's loops are good for.
REDUCTION_WIDE = 1024
#: Elements of a row that is better cut than that rows are put together.
REDUCTION_LONG = 1 << 14
#: Elements of a row that is better transposed.
REDUCTION_NARROW = 64
#: Floats that a product with ones adds up: more in one sum would lose digits.
REDUCTION_MOST_ADDED = 512

# ---- kernels.math.reductions
#: Elements up to which BLAS adds up with one thread itself.
REDUCTION_ALONE = 1 << 13

# ---- kernels.math.segments
#: Of data from which on a loop over rows is worth it.
SEGMENT_LARGE_BYTES = 1 << 18

# ---- kernels.math.selection
#: Elements above which bit masks beat where(), whose branches mispredict.
SELECTION_LARGE = 2048

# ---- kernels.nn.channel_rows
#: Of a block that are in cache at once.
CHANNEL_ARRAYS = 3

# ---- kernels.nn.classification
#: Rows up to this long are searched faster column by column, after a transposing copy.
CLASS_NARROW = 32
#: Columns from which on NumPy adds up in several sums.
CLASS_LONG = 128
#: Elements that BLAS adds up with one thread.
CLASS_FEW = 1 << 13
#: Best classes that are kept by insertion: with more, sorting is faster.
CLASS_MOST_INSERTED = 128

# ---- kernels.nn.relu_gradients
#: Of each array: some of them stay in the second-level cache.
RELU_BLOCK_BYTES = 1 << 17
#: Below which a second thread costs more than it brings.
RELU_LARGE_BYTES = 1 << 19

# ---- kernels.onednn.convolution
#: Images up to which the gradient by the filter is computed in another layout.
CONVOLUTION_SMALL_BATCH = 4
#: Channels from which on it is.
CONVOLUTION_DEEP = 16
#: Positions of an image from which on it is.
CONVOLUTION_SPACIOUS = 400

# ---- kernels.onednn.fused
#: Products over more columns are faster without bias and relu inside, and these after.
FUSED_DEEPEST = 2048
#: Shapes that a node remembers: more than a program feeds.
FUSED_MOST_KNOWN = 64

# ---- kernels.onednn.products
#: Axes of arrays in another order that the library reads as they are; others are copied.
ONEDNN_MOST_AXES = 4
#: Multiplications from which on its wider registers are worth what a call of the library costs.
ONEDNN_WIDER_PRODUCTS = 1 << 20

# ---- kernels.random.numbers
#: Bytes that numbers of four words need on the way: they stay in the cache.
RANDOM_BLOCK_BYTES = 96

# ---- kernels.random.philox
#: Runs that are drawn for at once, where each draws one number.
RANDOM_SCALARS_MOST = 64

# ---- kernels.random.with_parameters
#: Bytes that a number by rejection needs on the way.
REJECTION_ROW_BYTES = 192
#: Of a block: smaller ones cost more in calls of NumPy than they save by staying in the cache.
REJECTION_BLOCK_BYTES = REJECTION_ROW_BYTES << 15

# ---- kernels.sparse.sparse_math
#: Of the products that a matrix product holds at a time: they stay in the cache.
SPARSE_BLOCK_BYTES = 1 << 20

# ---- kernels.training.block_rules
#: Of one block of all arrays: a little more than a core's second-level cache, as no pass uses all.
RULE_WORKING_SET_BYTES = 3 << 19
#: Elements that a thread should have at least: fewer are over before it wakes up.
RULE_LEAST_PART = 1 << 16
#: A thread that starts late, or that the machine lets wait, takes fewer parts than another.
RULE_PARTS_PER_THREAD = 4
#: Pairs of arrays, one written: a loop over more tests too many overlaps to be vectorized.
RULE_MOST_PAIRS = 8

#: Steps 0, 1, ... of one depth of one-hot rows that are made once and kept.
ONE_HOT_MOST_STEPS = 1 << 20
