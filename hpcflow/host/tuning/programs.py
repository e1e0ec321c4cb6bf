"""Numbers of graph building, training and the tools: what is held, shown, tried and awaited."""

# ---- graph.notebook
#: Op types and devices that a table lists: it should stay readable.
NOTEBOOK_MOST = 8

# ---- graph.operation
#: More inputs or outputs than this are a mistake, for which no memory is taken.
OPERATION_MOST_TENSORS = 1 << 20

# ---- graph.shape_inference
#: Elements of a value that is computed as a graph is built: shapes and indices are no longer.
KNOWN_MOST_ELEMENTS = 1024

# ---- mpi.optimizer
#: Gradients of at least this size go alone, so that they need not be copied together.
GRADIENT_ALONE_BYTES = 1 << 20

# ---- nn.rnn
#: Iterations under way at a time where nothing is said, as in 1.x.
RNN_PARALLEL = 32

# ---- ops.arrays.constants
#: Elements of one repeated value; more are made at run time (Fill) instead of held by the graph.
CONSTANT_SMALL = 1000
#: Larger known values are not worth computing while the graph is built.
CONSTANT_MOST_KNOWN = 1 << 20

# ---- ops.state.initializers
#: Elements of a constant; above, the graph holds one of them.
INITIALIZER_LARGE = 1000

# ---- tools.bench.contestants
#: A peer that says nothing for so long is stuck (its import alone may take a minute).
BENCH_SILENCE_SECONDS = 300.0

# ---- tools.bench.convnets
#: Steps run so long before and after the wait for what is compiled in the background.
BENCH_WARMING_SECONDS = 2.0

# ---- tools.bench.warmup
#: How long steps are timed after the first, with an empty loop cache and with a full one.
BENCH_COLD_SECONDS = 25.0
BENCH_WARM_SECONDS = 10.0

# ---- tools.bench.gpu
#: Rows that are not begun by then are left out, and say so.
BENCH_GPU_SECONDS = 240.0
#: No size of a rehearsal is larger.
BENCH_GPU_SMALL = 16

# ---- tools.bench.prediction
#: That one prediction and its runs may take on a busy machine.
BENCH_PREDICTION_SECONDS = 600

# ---- tools.bench.serving
#: For which what an idle server costs is measured.
BENCH_IDLE_SECONDS = 3.0

# ---- tools.bench.training
#: In which the first steps of a program are counted; it is warmed for a fifth of that.
BENCH_FIRST_SECONDS = 5.0

# ---- tools.doctor
#: MPI's own segments of some ranks take that much.
DOCTOR_SMALL_SHARED_MEMORY_MIB = 128

# ---- tools.facts
#: That a process which only reports may take: imports from a busy file system are slow.
CHILD_SECONDS = 60.0

# ---- tools.run
#: That ranks have to end after a signal that asks for it: time for a checkpoint.
RUN_GRACE_SECONDS = 30.0
#: That the launcher has then to end them.
RUN_LAUNCHER_GRACE_SECONDS = 15.0
#: Between two looks at the processes.
RUN_POLL_SECONDS = 0.05
#: Of a log that a report shows.
RUN_TAIL_LINES = 5
#: Ranks of whose ends it tells.
RUN_TOLD_RANKS = 20
#: Attempts of a launcher that fails before it starts a rank.
RUN_LAUNCHES = 3

# ---- tools.vanished
#: Between two looks at the ranks of this node.
RUN_LOOK_SECONDS = 1.0
#: That a launcher has to notice that a rank is gone.
RUN_VANISHED_SECONDS = 10.0

# ---- tools.restarts
#: Restarts in a row that may save nothing new.
RUN_IDLE_RESTARTS = 3
#: That asking whether a node is there may take.
RUN_PROBE_SECONDS = 30.0

# ---- train.session_layers
#: To make a session again after a task was lost, in a row: half a minute in all.
SESSION_ATTEMPTS = 8
#: Before the second attempt; each pause is twice the one before.
SESSION_PAUSE_SECONDS = 0.25

# ---- train.saver
#: Unfinished files that nobody has written to for so long are abandoned.
SAVER_STALE_SECONDS = 3600.0

# ---- train.session_manager
#: Between the first two looks at whether the chief is done; each is longer.
READY_FIRST_PAUSE_SECONDS = 0.02

#: Seconds that a job started by doctor may take before it counts as hanging.
LAUNCH_SECONDS = 90.0

#: Seconds that a launcher which is told to end has to end its ranks.
LAUNCH_GRACE_SECONDS = 10.0
