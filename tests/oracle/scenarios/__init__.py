"""Programs of several steps over stateful ops: queues, temporary variables, files, summaries."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SCENARIOS: dict[str, Callable] = {}


def raw(tf: Any) -> Callable:
    """``add(op, **inputs_and_attrs)``: ops by the names of their registered signatures."""
    if tf.__name__ == "hpcflow":
        return lambda op, **values: getattr(tf.raw_ops, op)(**values)
    from reference import add_by_name

    return add_by_name


def scenario(program: Callable) -> Callable:
    """Decorator: `program(tf, session_of)` returns a list of values."""
    SCENARIOS[program.__name__] = program
    return program


def run(tf: Any, name: str, config: Any) -> tuple[dict, list]:
    """Run one; returns the op types in its graph, and its values."""
    with tf.Graph().as_default() as graph, tf.Session(config=config) as session:
        values = SCENARIOS[name](tf, session)
        ops = sorted({op.type for op in graph.get_operations()})
    return {"ops": ops}, [_array(v) for value in values for v in _leaves(value)]


def _leaves(value: Any) -> list:
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in _leaves(v)]
    return [value]


def _array(value: Any) -> np.ndarray:
    if isinstance(value, (bytes, str)):
        boxed = np.empty((), object)
        boxed[()] = value if isinstance(value, bytes) else value.encode()
        return boxed
    return np.asarray(value)


def _outcome(session: Any, fetch: Any, feeds: Any = None) -> Any:
    """The value, or the name of the error's class."""
    try:
        value = session.run(fetch, feeds)
        return [] if value is None else value
    except Exception as error:  # noqa: BLE001 - an outcome like others
        return type(error).__name__


# ---------------------------------------------------------------- queues


@scenario
def fifo_queue(tf: Any, session: Any) -> list:
    queue = tf.FIFOQueue(10, [tf.float32, tf.string], [[2], []])
    session.run(queue.enqueue([[1.0, 2.0], "a"]))
    session.run(queue.enqueue_many([[[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], ["b", "c", "d"]]))
    values = [session.run(queue.size()), session.run(queue.dequeue()),
              session.run(queue.dequeue_many(2)), session.run(queue.size())]
    session.run(queue.close())
    values += [_outcome(session, queue.dequeue_up_to(5)), _outcome(session, queue.dequeue()),
               _outcome(session, queue.enqueue([[1.0, 2.0], "a"])),
               _outcome(session, queue.dequeue_many(1))]
    return values


@scenario
def queue_bad_shapes(tf: Any, session: Any) -> list:
    queue = tf.FIFOQueue(10, [tf.float32], [[2]])
    x = tf.placeholder(tf.float32)
    less = tf.placeholder(tf.int32, [])
    one, many = queue.enqueue([x]), queue.enqueue_many([x])
    return [_outcome(session, one, {x: [1.0, 2.0, 3.0]}), _outcome(session, one, {x: 1.0}),
            _outcome(session, many, {x: [1.0, 2.0]}), _outcome(session, many, {x: [[1.0, 2.0]]}),
            _outcome(session, queue.size()),
            _outcome(session, queue.dequeue_many(less), {less: -1})]


@scenario
def padding_queue(tf: Any, session: Any) -> list:
    queue = tf.PaddingFIFOQueue(10, [tf.int32], [[None, 2]])
    x = tf.placeholder(tf.int32, [None, 2])
    enqueue = queue.enqueue([x])
    for count in (1, 3, 0):
        session.run(enqueue, {x: np.arange(2 * count).reshape(count, 2)})
    return [session.run(queue.dequeue_many(2)), session.run(queue.dequeue()),
            session.run(queue.size())]


@scenario
def priority_queue(tf: Any, session: Any) -> list:
    queue = tf.PriorityQueue(10, [tf.string], [[]])
    session.run(queue.enqueue_many([np.array([5, 1, 3], np.int64), ["e", "a", "c"]]))
    session.run(queue.enqueue([np.int64(2), "b"]))
    return [session.run(queue.dequeue()), session.run(queue.dequeue_many(2)),
            session.run(queue.size())]


@scenario
def shuffle_queue(tf: Any, session: Any) -> list:
    queue = tf.RandomShuffleQueue(50, 0, [tf.int32], [[]], seed=3)
    session.run(queue.enqueue_many([np.arange(40, dtype=np.int32)]))
    first, rest = session.run(queue.dequeue_many(20)), session.run(queue.dequeue_many(20))
    mixed = list(first) != list(range(20))
    return [np.sort(np.concatenate([first, rest])), mixed, session.run(queue.size())]


@scenario
def old_queues(tf: Any, session: Any) -> list:
    """The first forms of the queue ops, with reference handles."""
    raw, values = tf.raw_ops, []
    handle = raw.FIFOQueue(component_types=[tf.int32], shapes=[[]], capacity=5)
    session.run(raw.QueueEnqueue(handle=handle, components=[tf.constant(7)]))
    session.run(raw.QueueEnqueueMany(handle=handle, components=[tf.constant([8, 9, 10])]))
    values.append(session.run(raw.QueueSize(handle=handle)))
    values.append(session.run(raw.QueueDequeue(handle=handle, component_types=[tf.int32])))
    values.append(session.run(raw.QueueDequeueMany(handle=handle, n=2,
                                                   component_types=[tf.int32])))
    session.run(raw.QueueClose(handle=handle))
    values.append(session.run(raw.QueueDequeueUpTo(handle=handle, n=5,
                                                   component_types=[tf.int32])))
    for op, options in ((raw.PaddingFIFOQueue, {"shapes": [[None]]}),
                        (raw.RandomShuffleQueue, {"shapes": [[]]})):
        other = op(component_types=[tf.int32], **options)
        values.append(session.run(raw.QueueSize(handle=other)))
    other = raw.PriorityQueue(component_types=[tf.int32], shapes=[[]])
    values.append(session.run(raw.QueueSize(handle=other)))
    return values


# ---------------------------------------------------------------- variables and control flow


@scenario
def old_variable(tf: Any, session: Any) -> list:
    raw = tf.raw_ops
    ref = raw.Variable(shape=[2], dtype=tf.float32)
    before = session.run(raw.IsVariableInitialized(ref=ref))
    session.run(raw.Assign(ref=ref, value=tf.constant([1.0, 2.0])))
    temporary = raw.TemporaryVariable(shape=[2], dtype=tf.float32, var_name="t")
    filled = raw.Assign(ref=temporary, value=tf.constant([3.0, 4.0]))
    added = raw.AssignAdd(ref=filled, value=tf.constant([1.0, 1.0]))
    final = raw.DestroyTemporaryVariable(ref=added, var_name="t")
    return [before, session.run(ref), session.run(final), session.run(raw.RefIdentity(input=ref))]


@scenario
def switches(tf: Any, session: Any) -> list:
    raw, values = tf.raw_ops, []
    x, pred = tf.placeholder(tf.float32), tf.placeholder(tf.bool)
    false, true = raw.Switch(data=x, pred=pred)
    merged, index = raw.Merge(inputs=[false * 2.0, true + 1.0])
    for choice in (True, False):
        values.append(session.run([merged, index], {x: [1.0, 2.0], pred: choice}))
        values.append(_outcome(session, true, {x: [1.0], pred: choice}))
    values.append(_outcome(session, merged, {x: [1.0], pred: [True, False]}))
    values.append(session.run(raw.LoopCond(input=pred), {pred: True}))
    return values


@scenario
def loops(tf: Any, session: Any) -> list:
    raw = tf.raw_ops
    x = tf.constant(0)
    entered = raw.Enter(data=x, frame_name="f")
    # The back edge is added as a GraphDef cannot: through while_loop, the raw ops are inside.
    values = [session.run(raw.Exit(data=entered))]
    result = tf.while_loop(lambda i, s: i < 7, lambda i, s: (i + 1, s + i * i), [x, x])
    values.append(session.run(result))
    nested = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + tf.while_loop(
        lambda j: j < i * 2, lambda j: j + 1, [tf.constant(0)])), [x, x])
    values.append(session.run(nested))
    y = tf.placeholder(tf.float32, [])
    power = tf.while_loop(lambda i, p: i < 4, lambda i, p: (i + 1, p * y), [x, tf.constant(1.0)])[1]
    values.append(session.run([power, *tf.gradients(power, y)], {y: 1.5}))
    return values


@scenario
def conditionals(tf: Any, session: Any) -> list:
    x = tf.placeholder(tf.float32, [])
    chosen = tf.cond(x > 0, lambda: x * x, lambda: -x)
    grad = tf.gradients(chosen, x)[0]
    chain = tf.case([(x < -1, lambda: tf.constant(1)), (x > 1, lambda: tf.constant(2))],
                    default=lambda: tf.constant(3))
    return [session.run([chosen, grad, chain], {x: v}) for v in (3.0, -2.0, 0.5)]


# ---------------------------------------------------------------- files and summaries


@scenario
def files(tf: Any, session: Any) -> list:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "a.txt")
        values = [_outcome(session, tf.read_file(path))]
        session.run(tf.write_file(path, "contents \x01"))
        found = session.run(tf.matching_files(str(Path(folder) / "*.txt")))
        values += [session.run(tf.read_file(path)), [Path(f.decode()).name for f in found]]
    return values


@scenario
def readers(tf: Any, session: Any) -> list:
    values: list = []
    with tempfile.TemporaryDirectory() as directory:
        def write(name: str, data: bytes) -> bytes:
            (Path(directory) / name).write_bytes(data)
            return str(Path(directory) / name).encode()

        text, empty = write("text", b"a\nb\r\nc\rd\n\nlast\r"), write("empty", b"")
        fixed, none = write("fixed", b"HHaabbcF"), directory.encode() + b"/none"
        record = b"\x03\0\0\0\0\0\0\0\x15\xde\xac\x7dabc\x3a\x19\xc4\xe0"
        names = [text, empty, none, text]
        for kind, attrs, files in (
                ("TextLineReader", {}, names), ("WholeFileReader", {}, [text, empty]),
                ("TextLineReader", {"skip_header_lines": 3}, names),
                ("FixedLengthRecordReader", {"record_bytes": 2, "header_bytes": 2,
                                             "footer_bytes": 1}, [fixed, fixed]),
                ("FixedLengthRecordReader", {"record_bytes": -1}, [fixed]),
                ("IdentityReader", {}, [b"x", b"y"]),
                ("TFRecordReader", {}, [write("damaged", record)]),
                ("TFRecordReader", {"compression_type": "GZIP"}, [fixed])):
            for count in (0, 3):
                values += _read_all(tf, session, kind, attrs, files, count, directory)
    return values


def _read_all(tf: Any, session: Any, kind: str, attrs: dict, files: list, count: int,
              directory: str) -> list:
    """All outcomes of a reader, one by one or several at once; the counts and the state."""
    ops = tf.raw_ops
    queue = tf.FIFOQueue(9, tf.string)
    session.run(queue.enqueue_many([files]))
    session.run(queue.close())
    reader = getattr(ops, f"{kind}V2")(**attrs)
    both = {"reader_handle": reader, "queue_handle": queue.queue_ref}
    read = ops.ReaderReadUpToV2(num_records=count, **both) if count else ops.ReaderReadV2(**both)
    counts = [ops.ReaderNumRecordsProducedV2(reader_handle=reader),
              ops.ReaderNumWorkUnitsCompletedV2(reader_handle=reader)]
    values = []
    for _ in range(8):
        found = _outcome(session, list(read))
        if not isinstance(found, str):  # without the directory, which is another one
            found = [np.array([v.replace(directory.encode(), b"") for v in np.ravel(part)], object)
                     for part in found]
        values += [found, _outcome(session, counts)]
    state = ops.ReaderSerializeStateV2(reader_handle=reader)
    stored = _outcome(session, state)
    if isinstance(stored, bytes):
        stored = stored.replace(directory.encode(), b"")
        restore = ops.ReaderRestoreStateV2(reader_handle=reader, state=b"\x08\x02\x10\x01")
        values += [_outcome(session, restore), _outcome(session, state)]
    _outcome(session, ops.ReaderResetV2(reader_handle=reader))
    return [*values, stored, _outcome(session, counts)]


@scenario
def checkpoint(tf: Any, session: Any) -> list:
    """Each library in its own format: what is saved comes back."""
    v = tf.Variable(np.arange(6, dtype=np.float32).reshape(2, 3), name="v")
    w = tf.Variable(np.int64(4), name="w")
    session.run(tf.global_variables_initializer())
    saver = tf.train.Saver()
    with tempfile.TemporaryDirectory() as folder:
        path = saver.save(session, str(Path(folder) / "model"), global_step=3)
        session.run([tf.assign(v, v * 2), tf.assign_add(w, 1)])
        changed = session.run([v, w])
        saver.restore(session, path)
        return [changed, session.run([v, w]), Path(path).name,
                Path(tf.train.latest_checkpoint(folder)).name]


@scenario
def summaries(tf: Any, session: Any) -> list:
    scalar = tf.summary.scalar("loss", tf.constant(1.5))
    values = np.array([-1.0, 0.0, 0.5, 2.0, 2.0], np.float32)
    histogram = tf.summary.histogram("weights", tf.constant(values))
    merged = tf.summary.merge([scalar, histogram])
    results = [session.run(scalar)]
    message = tf.Summary()
    message.ParseFromString(session.run(merged))
    h = message.value[1].histo
    return [*results, [v.tag for v in message.value], [h.min, h.max, h.num, h.sum, h.sum_squares],
            list(h.bucket_limit), list(h.bucket)]


# ---------------------------------------------------------------- tables, arrays, stacks


@scenario
def tensor_arrays(tf: Any, session: Any) -> list:
    array = tf.TensorArray(tf.float32, 3, clear_after_read=False)
    array = array.write(0, [1.0, 2.0]).write(1, [3.0, 4.0]).write(2, [5.0, 6.0])
    values = session.run([array.read(1), array.stack(), array.size(), array.gather([2, 0]),
                          array.concat()])
    x = tf.placeholder(tf.float32, [4, 2])
    parts = tf.TensorArray(tf.float32, 4).unstack(x)
    total = parts.read(0) * 2.0 + parts.read(3)
    split = tf.TensorArray(tf.float32, 2, infer_shape=False).split(x, [1, 3])
    feeds = {x: np.arange(8.0).reshape(4, 2)}
    values += session.run([total, *tf.gradients(total, x), split.read(1)], feeds)
    values.append(_outcome(session, tf.TensorArray(tf.float32, 2).unstack(x).read(0), feeds))
    empty = tf.TensorArray(tf.float32, 2)
    values.append(_outcome(session, empty.write(5, [1.0]).flow))
    once = tf.TensorArray(tf.float32, 2).write(0, 1.0)
    values.append(_outcome(session, [once.write(0, 2.0).read(0)]))
    return values


@scenario
def stacks(tf: Any, session: Any) -> list:
    raw = tf.raw_ops
    handle = raw.StackV2(max_size=-1, elem_type=tf.float32)
    push = raw.StackPushV2(handle=handle, elem=tf.constant([1.0, 2.0]))
    with tf.control_dependencies([push]):
        again = raw.StackPushV2(handle=handle, elem=tf.constant([3.0]))
    with tf.control_dependencies([again]):
        pop = raw.StackPopV2(handle=handle, elem_type=tf.float32)
    with tf.control_dependencies([pop]):
        last = raw.StackPopV2(handle=handle, elem_type=tf.float32)
    with tf.control_dependencies([last]):
        close = raw.StackCloseV2(handle=handle)
    return session.run([push, again, pop, last, close])[:4]


@scenario
def hash_tables(tf: Any, session: Any) -> list:
    raw = tf.raw_ops
    handle = raw.HashTable(key_dtype=tf.string, value_dtype=tf.int64)
    keys, values = tf.constant(["a", "b", "c"]), tf.constant([1, 2, 3], tf.int64)
    default = tf.constant(-1, tf.int64)
    find = raw.LookupTableFind(table_handle=handle, keys=tf.constant(["c", "x"]),
                               default_value=default)
    results = [_outcome(session, find)]
    session.run(raw.InitializeTable(table_handle=handle, keys=keys, values=values))
    return [*results, session.run(find), session.run(raw.LookupTableSize(table_handle=handle))]


@scenario
def mutable_tables(tf: Any, session: Any) -> list:
    raw = tf.raw_ops
    handle = raw.MutableHashTable(key_dtype=tf.int64, value_dtype=tf.float32, shared_name="m")
    keys = tf.constant([3, 1, 2], tf.int64)
    session.run(raw.LookupTableInsert(table_handle=handle, keys=keys,
                                      values=tf.constant([30.0, 10.0, 20.0])))
    found = raw.LookupTableFind(table_handle=handle, keys=tf.constant([[1, 9]], tf.int64),
                                default_value=tf.constant(0.5))
    exported = raw.LookupTableExport(table_handle=handle, Tkeys=tf.int64, Tvalues=tf.float32)
    out_keys, out_values = session.run(exported)
    order = np.argsort(out_keys)
    values = [session.run(found), out_keys[order], out_values[order]]
    session.run(raw.LookupTableImport(table_handle=handle, keys=tf.constant([7], tf.int64),
                                      values=tf.constant([70.0])))
    return [*values, session.run(raw.LookupTableSize(table_handle=handle))]


# ---------------------------------------------------------------- gradients that come together


@scenario
def accumulators(tf: Any, session: Any) -> list:
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[2])
    step = tf.placeholder(tf.int64, [])
    apply = accumulator.apply_grad(tf.constant([1.0, 3.0]), local_step=step)
    for local in (0, 0, 0):
        session.run(apply, {step: local})
    values = [session.run(accumulator.num_accumulated()), session.run(accumulator.take_grad(2))]
    session.run(accumulator.set_global_step(5))
    session.run(apply, {step: 2})
    values.append(session.run(accumulator.num_accumulated()))
    sparse = tf.SparseConditionalAccumulator(tf.float32, shape=[4, 2])
    for rows in ([0, 2], [2, 3]):
        session.run(sparse.apply_grad(np.array(rows, np.int64), np.ones((2, 2), np.float32)))
    taken = sparse.take_grad(2)
    return [*values, session.run([taken[0], taken[1]])]


@scenario
def staging(tf: Any, session: Any) -> list:
    raw = tf.raw_ops
    session.run(raw.Stage(values=[tf.constant([1.0, 2.0]), tf.constant(3)], shared_name="s"))
    return session.run(raw.Unstage(dtypes=[tf.float32, tf.int32], shared_name="s"))


@scenario
def session_handles(tf: Any, session: Any) -> list:
    handle = session.run(tf.get_session_handle(tf.constant([1.0, 2.0]) * 3.0))
    place, tensor = tf.get_session_tensor(handle.handle, tf.float32)
    values = [session.run(tensor + 1.0, {place: handle.handle}), handle.eval()]
    handle.delete()
    return [*values, _outcome(session, tensor, {place: handle.handle})]


@scenario
def barriers(tf: Any, session: Any) -> list:
    raw = tf.raw_ops
    handle = raw.Barrier(component_types=[tf.float32, tf.int32], shapes=[[], []], shared_name="b")
    keys = tf.constant(["a", "b"])
    # Keys of one call have one index in the reference, which then does not order them.
    for key, value in (("a", 1.0), ("b", 2.0)):
        session.run(raw.BarrierInsertMany(handle=handle, keys=[key], values=tf.constant([value]),
                                          component_index=0))
    values = [session.run([raw.BarrierReadySize(handle=handle),
                           raw.BarrierIncompleteSize(handle=handle)])]
    session.run(raw.BarrierInsertMany(handle=handle, keys=keys, values=tf.constant([3, 4]),
                                      component_index=1))
    taken = raw.BarrierTakeMany(handle=handle, num_elements=2,
                                component_types=[tf.float32, tf.int32])
    indices, names, components = session.run(taken)
    values += [indices, list(names), list(components)]
    session.run(raw.BarrierClose(handle=handle))
    return [*values, _outcome(session, taken)]


@scenario
def strings(tf: Any, session: Any) -> list:
    joined = tf.string_join([["a", "b"], "x"], separator="-")
    return [session.run(joined), session.run(tf.raw_ops.ShardedFilename(
        basename="f", shard=2, num_shards=10)), session.run(tf.raw_ops.ShardedFilespec(
            basename="f", num_shards=10))]


@scenario
def sparse_tensors_map(tf: Any, session: Any) -> list:
    """Sparse tensors left with the session, taken in another order, and as strings."""
    raw, parts = tf.raw_ops, (np.array([[0, 1], [0, 2], [2, 0]]), np.float32([1, 2, 3]),
                              np.array([3, 4]))
    keys = dict(zip(("sparse_indices", "sparse_values", "sparse_shape"), map(tf.constant, parts)))
    many = raw.AddManySparseToTensorsMap(shared_name="kept", container="", **keys)
    one = raw.AddSparseToTensorsMap(shared_name="whole", container="", **keys)
    handles = tf.placeholder(tf.int64, [None])
    rows, whole = (raw.TakeManySparseFromTensorsMap(
        sparse_handles=handles, dtype=tf.float32, shared_name=name, container="")
        for name in ("kept", "whole"))
    found = session.run(many)
    values = [len(found), *session.run(list(rows), {handles: found[[2, 0]]}),
              *session.run(list(rows), {handles: found[[1]]}),
              *session.run(list(whole), {handles: [session.run(one)]})]
    strings = raw.SerializeManySparse(**keys)
    back = raw.DeserializeManySparse(serialized_sparse=strings, dtype=tf.float32)
    wide = raw.DeserializeManySparse(serialized_sparse=tf.stack([raw.SerializeSparse(**keys)] * 2),
                                     dtype=tf.float32)
    return [*values, *session.run([list(back), list(wide)])]


@scenario
def sparse_functions(tf: Any, session: Any) -> list:
    """The public functions that are made of several ops."""
    x = tf.SparseTensor([[0, 1], [2, 0], [2, 3]], [3.0, 1.0, 2.0], [4, 5])
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], np.int64([2, 0, 1]), [3, 2])
    weights = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1.0, 2.0, 3.0], [3, 2])
    dense = np.arange(5.0, dtype=np.float32)
    table = tf.constant(np.arange(6.0, dtype=np.float32).reshape(3, 2))
    filled = tf.sparse_fill_empty_rows(x, -1.0)
    results = [
        filled[0], filled[1], tf.sparse_transpose(x), tf.sparse_retain(x, [True, False, True]),
        tf.sparse_reset_shape(x), tf.sparse_reset_shape(x, [5, 7]), tf.sparse_to_indicator(ids, 4),
        tf.sparse_merge(ids, weights, 4), tf.sparse_tensor_to_dense(x, -2.0), x * dense,
        x / (dense + 1), tf.sparse_add(x, x), tf.sparse_add(x, tf.ones([4, 5])),
        tf.sparse_concat(0, [x, tf.sparse_reset_shape(x)], expand_nonconcat_dim=True),
        tf.sparse_reshape(x, [2, -1]), tf.sparse_reduce_sum(x, 1), tf.sparse_reduce_sum(x),
        tf.sparse_reduce_sum(x, -1, True), tf.sparse_softmax(x), tf.sparse_maximum(x, x * dense),
        tf.sparse_split(sp_input=x, num_split=2, axis=1), tf.shape(x), tf.size(x), tf.rank(x),
        tf.square(x), tf.cast(x, tf.int32), tf.sparse_tensor_dense_matmul(x, tf.ones([5, 2])),
        tf.nn.embedding_lookup_sparse(table, ids, weights, combiner="sum"),
        tf.sets.set_union([[1, 2], [3, 3]], [[2, 5], [4, 3]]), tf.sets.set_size(ids),
        tf.sets.set_difference(ids, tf.constant([[0], [1], [7]], tf.int64)),
        tf.sets.set_intersection(tf.constant([[0], [1], [7]], tf.int64), ids),
    ]
    fed = tf.sparse_placeholder(tf.float32, [2, 3])
    value = tf.SparseTensorValue([[1, 2]], [5.0], [2, 3])
    return [tuple(session.run(r)) if isinstance(r, tf.SparseTensor) else session.run(r)
            for r in results] + [session.run(fed, {fed: value})]
