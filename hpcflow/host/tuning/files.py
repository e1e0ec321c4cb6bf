"""Numbers of `hpcflow.storage`, `hpcflow.resources` and `hpcflow.data`: what is read at a time."""

# ---- resources.datasets.parallel
#: Elements that are made ahead, where the number is left to the library.
DATASET_AHEAD = 2
#: Calls at a time, where the number is left to the library.
DATASET_ABREAST = 4
#: Calls shorter than this are not worth another thread.
CALL_SHORT_SECONDS = 1e-4
#: Longer calls are tried there again.
CALL_LONG_SECONDS = 5e-4
#: Calls that are measured before it is decided: single ones are slow by chance.
CALL_TRIALS = 16

# ---- resources.datasets.sources
#: Elements of a range that are made at a time.
SOURCE_BLOCK = 4096

# ---- resources.datasets.workers
#: After so long without work a thread ends: nobody iterates any more.
WORKER_IDLE_SECONDS = 0.25

# ---- resources.readers
#: That a reader takes from its file at once.
READER_AHEAD_RECORDS = 512
#: The same in bytes, where records are long.
READER_AHEAD_BYTES = 1 << 20

# ---- data.experimental.files
#: Read from a text file at once where nothing is said, as in 1.x.
CSV_BUFFER_BYTES = 4 * 1024 * 1024

# ---- data.readers
#: Read from a file of records at once where nothing is said, as in 1.x.
READ_BUFFER_BYTES = 256 * 1024

# ---- storage.block_reads
#: Shorter runs are not worth a call each.
READ_SHORT_RUN_BYTES = 1 << 14
#: That are read together for short runs.
READ_SPAN_BYTES = 4 << 20
#: That are read and verified before the next: they stay in the cache that a core has for itself.
READ_CHECKED_BYTES = 1 << 20
#: That read and verify blocks; more do not help where memory is the limit.
READ_THREADS = 4

# ---- storage.encoding
#: Times the bytes of strings that fixed width may take: reading it is that much simpler.
STRINGS_WASTE = 4
#: That fixed width may take anyway.
STRINGS_LITTLE_BYTES = 1 << 16

# ---- storage.locking
#: Between the first two looks at a lock.
LOCK_FIRST_PAUSE_SECONDS = 0.001
#: Between two looks: file systems of clusters answer no faster to many.
LOCK_LONGEST_PAUSE_SECONDS = 0.1
#: A save that takes longer is taken for one that will not end.
LOCK_PATIENCE_SECONDS = 600.0

# ---- storage.raw_files
#: Of one call: Linux transfers at most 2 GiB, and less if it likes.
FILE_TRANSFER_BYTES = 1 << 30

# ---- storage.records
#: Of a checksum: little to read for a slice, few checksums for a large variable.
RECORD_BLOCK_BYTES = 8 << 20
#: Written at once: stays in a core's cache, and is what file systems of clusters transfer.
WRITE_PART_BYTES = 1 << 20

# ---- storage.table_writing
#: A block of a table ends once it has so many: a reader loads whole ones.
TABLE_BLOCK_BYTES = 1 << 16
#: Entries between two places where a reader may begin.
TABLE_RESTARTS = 16

# ---- storage.tfrecords
#: That are decompressed or read at a time.
TFRECORD_CHUNK_BYTES = 1 << 18
