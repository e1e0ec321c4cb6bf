"""Numbers of `hpcflow.runtime.executor.gpu`: how values move between host and GPU."""

# ---- runtime.executor.gpu.pinned
#: The smallest block of pinned memory.
PINNED_LEAST_BYTES = 4096
#: Blocks of a size that may be waiting for their copies, before the host waits for the first.
PINNED_MOST = 8

# ---- runtime.executor.gpu.transfers
#: Larger values are copied on a stream of their own, beside the kernels.
COPY_BESIDE_BYTES = 1 << 20
#: Of the pieces in which large values are staged: while one is on its way, the next is filled.
STAGING_BYTES = 4 << 20
#: Buffers of one size that are kept for the next large feeds.
FEED_BUFFERS = 4
#: Values up to this size are copied out of the pinned memory that they came in.
FETCH_COPY_BYTES = 1 << 20

# ---- runtime.executor.gpu.graphs
#: Sets of shapes for which a region is recorded, and times that it is recorded again.
GRAPH_MOST = 8

# ---- runtime.executor.gpu.memory
#: Which part of what a run needs is added for gaps.
GRAPH_GAPS = 16
#: Values of a graph that are smaller come from a block of this size.
GRAPH_SMALL_BYTES = 1 << 16
GRAPH_SMALL_BLOCK = 1 << 20
#: Variables that a message about too little memory names.
MEMORY_NAMED = 5

# ---- runtime.executor.gpu.nccl_link
#: Seconds after which GPUs that not all ranks have joined are given up.
LINK_OPEN_SECONDS = 120.0

# ---- runtime.executor.gpu.ipc
#: Which part of a GPU's memory may be exported to other processes.
EXPORTED_PART = 8

# ---- runtime.executor.gpu.ipc_link
#: What a rank writes at a time for the others of a collective operation: with more, the messages
#: between two pieces take little of the time.
LINK_HALF_BYTES = 64 << 20

# ---- kernels.cudnn
#: The most memory of an algorithm's own, and which part of the free memory it and transposed
#: operands may take.
CUDNN_MOST_BYTES = 1 << 30
CUDNN_PART_OF_FREE = 4
#: Ways that are measured in each order of memory, the best by the library's heuristics.
CUDNN_MEASURED = 6
#: A way that takes less is measured behind a pause, and how long that is.
CUDNN_SHORT_MS = 0.6
CUDNN_PAUSE_NANOSECONDS = 300_000
#: A way that takes so many times the best one's time is not measured again.
CUDNN_HOPELESS = 1.25
#: Of ways up to so many times the best one's time that with the least memory is taken.
CUDNN_AS_FAST = 1.02

# ---- kernels.common.device_windows
#: The most of a matrix of windows that is made at once, where cuDNN does not convolve.
COLUMNS_BYTES = 1 << 28

# ---- kernels.nn.device_pooling
#: Of neighbouring channels, the most that a thread reads at once.
PACK_BYTES = 16

# ---- kernels.common.device_rows
#: Rows of a table that is written to, for each that is written and besides, up to which a number
#: for every row is held to find the last update.
SCATTER_SPARSEST = 16
SCATTER_ROWS = 1 << 16
