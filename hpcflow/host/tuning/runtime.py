"""Numbers of `hpcflow.runtime`: who looks for messages when, and what travels in one."""

# ---- runtime.cluster.endpoint
#: That a rank that has finished gives the others to notice, before it ends the job.
LAST_WORDS_SECONDS = 3.0

# ---- runtime.cluster.health
#: How late a look may be on a busy machine.
HEALTH_AWAY_SECONDS = 0.5

# ---- runtime.cluster.lane
#: Of a header message with everything in it: MPI takes so much in at once.
LANE_INLINE_BYTES = 4096
#: Smaller static values are copied into the lane's own send buffer: that is faster than a view.
LANE_COPY_BYTES = 1 << 14

# ---- runtime.cluster.preemption
#: Between two looks at whether the file is there that asks for the end.
PREEMPTION_FILE_SECONDS = 1.0

# ---- runtime.collective.collective_parts
#: Arrays of a pool that nobody uses, before they are given up.
COLLECTIVE_SPARE = 4

# ---- runtime.collective.collective_run
#: Of waiting after which the others are asked, and between two questions.
COLLECTIVE_ASK_SECONDS = 1.0
#: To wait for the reason of a failure elsewhere, once it shows.
COLLECTIVE_REASON_SECONDS = 1.0
#: Members that one rank asks at a time: a thousand questions would hold up the step.
COLLECTIVE_MOST_ASKED = 16

# ---- runtime.collective.collectives
#: Steps that a rank remembers: more than are under way.
COLLECTIVE_REMEMBERED = 64

# ---- runtime.executor.event_loop
#: A driver that has been busy with one thing for longer gets help from threads that wait.
DRIVER_BUSY_SECONDS = 0.002
#: The longest sleep of a thread that waits: for so long a handler of a signal may be held back.
LOOK_SECONDS = 0.05
#: Between two times that what is to happen every while happens.
TICK_SECONDS = 0.25
#: Until a thread beside the driver looks whether there is one: one that leaves does not wake it.
ASIDE_SECONDS = 0.0005
#: Polls without a result between two looks at the clock, which costs about as much.
POLL_CLOCK_STRIDE = 32
#: Until the background thread looks when nobody has driven lately: each look takes a core.
COVER_SECONDS = 0.001
#: The most of that, while it finds nothing, or a driver that is not busy.
BESIDE_SECONDS = 0.002
#: The same when all is quiet: an idle process should cost nothing.
QUIET_SECONDS = 0.02

# ---- runtime.executor.offload
#: Longer pieces are handed over, which takes some tens of microseconds and then disturbs.
PIECE_LONG_SECONDS = 400e-6
#: The same where ranks share cores: a piece may have waited for one, and a thread would too.
PIECE_LONG_SHARED_SECONDS = 2e-3
#: Pieces that take less are very short: as the way from a poll to the event loop.
PIECE_SHORT_SECONDS = 50e-6
#: How slowly a long piece is forgotten, for that: it would hold up the others that poll.
PIECE_MEMORY = 0.97
#: For how long a master counts after its last step, if another one has run steps since.
MASTER_SECONDS = 1.0
#: To which long pieces are handed: more would take the interpreter from each other.
OFFLOAD_THREADS = 4

# ---- runtime.executor.propagation
#: Between two looks at whether a loop has to stop: each iteration takes microseconds.
LOOK_ITERATIONS = 64

# ---- runtime.executor.tagged
#: Of a value that is part of its message: a copy is cheaper than a second message.
TAGGED_INLINE_BYTES = 8192

# ---- runtime.executor.turns
#: That a go of turns takes: others may wait for what it does.
TURNS_SECONDS = 0.5e-3
#: The most turns of one.
TURNS_MOST = 256
#: A turn that takes longer is no part of a go.
TURN_LONG_SECONDS = 100e-6
#: Goes in a row with such turns that are enough to see that.
TURNS_LONG = 4
#: Steps until it is looked again how long a turn takes: first, and at most, as each pause is twice
#: the one before.
TURNS_PAUSE = 64
TURNS_PAUSE_MOST = 4096

# ---- runtime.session.partings
#: That each operation at the end may take, of a cluster that may have lost ranks.
PARTING_SECONDS = 5.0

# ---- runtime.session.session_tensors
#: That are deleted together: a run for each would cost more than the memory.
DEAD_HANDLES = 10

# ---- runtime.session.shape_specialization
#: With feeds of the same shapes before these are worth a step of their own.
SHAPES_FEWEST_RUNS = 3
#: Times what compiling took, that such runs must have taken before.
SHAPES_WORTH = 2.0
#: Steps for shapes that are kept: each holds a plan and its memory.
SHAPES_MOST_STEPS = 8
#: Shapes for which time is kept.
SHAPES_MOST_KEPT = 64

# ---- runtime.steps.compiled
#: That a cancelled step may take to drain.
STEP_DRAIN_SECONDS = 10.0
#: That one may take which the end of the program interrupts.
STEP_EXIT_SECONDS = 1.0

# ---- runtime.wire.lost_ranks
#: That a message about a lost rank lists: it should stay readable.
LOST_SHOWN_WAITS = 3

# ---- runtime.wire.shared_edges
#: Values of fewer bytes are no longer than a message may be that MPI takes in at once.
SHARED_EDGE_LEAST_BYTES = 1 << 14
#: Of more bytes, MPI copies one part while another is under way.
SHARED_EDGE_MOST_BYTES = 1 << 23
