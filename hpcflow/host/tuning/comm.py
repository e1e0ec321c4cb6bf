"""Numbers of `hpcflow.comm`: how long waits look before they sleep, and how messages are cut."""

# ---- comm.abort
#: Between a report and the end: launchers drop what they have not forwarded by then.
ABORT_REPORT_SECONDS = 0.1
#: Before the report of a rank that failed because another one did, whose own then comes first.
ABORT_ELSEWHERE_SECONDS = 0.5
#: From one of these ranks to the next: the first one to report ends the others.
ABORT_TURN_SECONDS = 0.25
#: The most that one of them waits.
ABORT_LAST_TURN_SECONDS = 3.0
#: Between two looks whether a handler that waits may run: more rarely than any step.
HELD_LOOK_SECONDS = 0.005

# ---- comm.activity
#: A round that receives no more sends before it posts receives: MPI takes so much in at once.
ROUND_SHORT_BYTES = 4096

# ---- comm.cores
#: Steps that follow each other faster are short: a few times the slice of time of a process.
STEP_SHORT_SECONDS = 8e-3
#: For so long a thread stays where it was put, as the system looks for better places in ticks.
STEP_STAYS_SECONDS = 0.5e-3
#: So many short steps in a row let a rank keep to its core: fewer may be a chance.
STEPS_TO_SETTLE = 20

# ---- comm.frozen
#: Between two looks at whether ranks of this node are stopped: far less than any timeout.
FROZEN_LOOK_SECONDS = 0.5

# ---- comm.finalize
#: Looks at whether a cancelled receive has ended: some milliseconds, as MPI may need progress.
CANCEL_LOOKS = 10_000

# ---- comm.mpi_control
#: Control messages up to this size are one MPI message: nearly all, in a buffer that is small.
CONTROL_MESSAGE_BYTES = 16384

# ---- comm.mpi_requests
#: Messages of one long transfer that are posted at a time: two in work, two to follow.
TRANSFER_WINDOW = 4

# ---- comm.mpi_transport
#: With more requests than this, one Testsome is faster than a Test of each.
REQUESTS_TESTED_SINGLY = 6
#: Looks of a poll for something that has come: cheap beside the call that polls.
POLL_LOOKS = 4
#: Control messages that go before values at most, where looking for values gives the core away.
CONTROL_AHEAD = 16
#: Longer messages have hardly ever left when their send returns: they wait for the receiver.
SEND_SHORT_BYTES = 4096
#: For how long `close` waits for receivers to take what was sent: longer than a busy rank is away.
CLOSE_DRAIN_SECONDS = 5.0

# ---- comm.patterns
#: Up to this size a reduction is one round of all to all: beyond it copies cost more than rounds.
REDUCE_SMALL_BYTES = 1 << 15
#: With more members than this, that round has too many messages.
REDUCE_FEW_MEMBERS = 8
#: Blocks of one reduction under way at a time: one is added up while the other travels.
REDUCE_LANES = 2
#: From this size on a reduction has several blocks: smaller ones gain less than messages cost.
REDUCE_SPLIT_BYTES = 1 << 21
#: The segment that a member owns of a block, at most: it stays in the cache while it is added up.
REDUCE_SEGMENT_BYTES = 1 << 22
#: What a member receives of a block, at most: the memory that a reduction takes beside its value.
REDUCE_RECEIVED_BYTES = 1 << 24

# ---- comm.reduction
#: Elements that are joined at a time, so that intermediate results stay in the cache.
REDUCE_BLOCK = 1 << 15

# ---- comm.transfers
#: Transfers that are remembered, for each rank and direction: more than steps have at a time.
TRANSFERS_KEPT = 4

# ---- comm.waiting
#: Polls without yielding at first, where every rank has a core: a message is a few polls away.
WAIT_SPINS = 4
#: The same at most: where a rank shares its core after all, each delays the one it waits for.
WAIT_MOST_SPINS = 20
#: What a poll and a yield take at most if no other process runs on the core meanwhile.
WAIT_ALONE_SECONDS = 8e-6
#: For how long a wait yields at least: some times the way of a message.
WAIT_MIN_YIELD_SECONDS = 200e-6
#: For how long a wait yields at most: a step that takes longer loses little by a sleep.
WAIT_MAX_YIELD_SECONDS = 20e-3
#: The least where ranks share cores: whoever yields takes a core from the one it waits for.
WAIT_MIN_SHARED_SECONDS = 50e-6
#: The most where ranks share cores.
WAIT_MAX_SHARED_SECONDS = 1e-3
#: The first sleep of a wait: shorter ones the system does not give.
WAIT_MIN_SLEEP_SECONDS = 20e-6
#: Each sleep to the one before, so that a sleep adds at most about a tenth to the wait.
WAIT_SLEEP_GROWTH = 1.1
#: The longest sleep: what a message may be late.
WAIT_MAX_SLEEP_SECONDS = 1e-3
#: The sleep of a process that is idle: it should cost nothing.
WAIT_IDLE_SLEEP_SECONDS = 5e-3
#: After so long without a message a process is idle: longer than between two steps.
WAIT_IDLE_SECONDS = 1.0
#: Polls between two looks at the clock while yielding: the clock costs about as much as a poll.
WAIT_CLOCK_STRIDE = 8
#: Polls without a result after which a little more work no longer matters.
WAIT_LONG_MISSES = 100
#: A start that waits for other ranks longer than this says so.
SILENT_SECONDS = 10.0

# ---- ranks that are left when others are lost

#: Bytes for what each of them says of itself: its part in training, and the tasks that it serves.
SURVIVOR_RECORD_BYTES = 1024
