"""More programs: handles by reference, tables from files, samplers, summaries, lists of tensors."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scenarios import _outcome, scenario


def _raw(tf: Any) -> Callable:
    """``add(op, **inputs_and_attrs)``: ops by the names of their registered signatures."""
    if tf.__name__ == "hpcflow":
        return lambda op, **values: getattr(tf.raw_ops, op)(**values)
    from reference import add_by_name

    return add_by_name


# ---------------------------------------------------------------- arrays of earlier versions


def _array_program(tf: Any, session: Any, version: str) -> list:
    """The same steps in a version of ours that the reference refuses, and in its own."""
    add, ours = _raw(tf), tf.__name__ == "hpcflow"
    version = version if ours else "V3"
    suffix = {"": "", "V2": "V2", "V3": "V3"}[version]
    array = add("TensorArray" + suffix, size=tf.constant(3), dtype=tf.float32)
    handle, flow = array if version == "V3" else (array, tf.constant(0.0))
    rows = tf.placeholder(tf.float32, [3, 2])
    if version == "":
        flow = add("TensorArrayUnpack", handle=handle, value=rows, flow_in=flow)
    else:
        flow = add("TensorArrayScatter" + suffix, handle=handle, indices=tf.range(3), value=rows,
                   flow_in=flow)
    both = {"handle": handle, "flow_in": flow}
    read = add("TensorArrayRead" + suffix, index=tf.constant(1), dtype=tf.float32, **both)
    with tf.control_dependencies([read]):
        size = add("TensorArraySize" + suffix, **both)
    feeds = {rows: np.arange(6.0).reshape(3, 2)}
    values = [session.run([read, size], feeds)]
    for kept in (["Gather"], ["Concat"], ["Pack"] if version == "" else ["Gather"]):
        name = kept[0]
        options = {"indices": tf.range(2, -1, -1)} if name == "Gather" else {}
        suffix_of = "" if name == "Pack" else suffix
        if name == "Pack":
            got = add("TensorArrayPack", dtype=tf.float32, **both)
            got = tf.reverse(got, [0])
        else:
            got = add(f"TensorArray{name}{suffix_of}", dtype=tf.float32, **options, **both)
        values.append(session.run(got[0] if name == "Concat" else got, feeds))
    second = add("TensorArray" + suffix, size=tf.constant(2), dtype=tf.float32)
    handle, flow = second if version == "V3" else (second, tf.constant(0.0))
    flow = add("TensorArraySplit" + suffix, handle=handle, value=rows,
               lengths=tf.constant([1, 2], tf.int64), flow_in=flow)
    values.append(session.run(add("TensorArrayRead" + suffix, handle=handle, index=tf.constant(1),
                                  flow_in=flow, dtype=tf.float32), feeds))
    third = add("TensorArray" + suffix, size=tf.constant(2), dtype=tf.float32)
    handle, flow = third if version == "V3" else (third, tf.constant(0.0))
    flow = add("TensorArrayWrite" + suffix, handle=handle, index=tf.constant(1), value=rows,
               flow_in=flow)
    read = add("TensorArrayRead" + suffix, handle=handle, index=tf.constant(1), flow_in=flow,
               dtype=tf.float32)
    with tf.control_dependencies([read]):
        close = add("TensorArrayClose" + suffix, handle=handle)
    values += [session.run([read, close], feeds)[0],
               _outcome(session, add("TensorArrayWrite" + suffix, handle=handle,
                                     index=tf.constant(5), value=rows, flow_in=flow), feeds)]
    return values


@scenario
def tensor_arrays_1(tf: Any, session: Any) -> list:
    return _array_program(tf, session, "")


@scenario
def tensor_arrays_2(tf: Any, session: Any) -> list:
    return _array_program(tf, session, "V2")


@scenario
def tensor_arrays_3(tf: Any, session: Any) -> list:
    return _array_program(tf, session, "V3")


@scenario
def stacks_by_reference(tf: Any, session: Any) -> list:
    add = _raw(tf)
    handle = add("Stack", elem_type=tf.float32)
    push = add("StackPush", handle=handle, elem=tf.constant([1.0, 2.0]))
    with tf.control_dependencies([push]):
        again = add("StackPush", handle=handle, elem=tf.constant([3.0]))
    with tf.control_dependencies([again]):
        pop = add("StackPop", handle=handle, elem_type=tf.float32)
    with tf.control_dependencies([pop]):
        last = add("StackPop", handle=handle, elem_type=tf.float32)
    with tf.control_dependencies([last]):
        close = add("StackClose", handle=handle)
    values = session.run([push, again, pop, last, close])[:4]
    return [*values, _outcome(session, add("StackPop", handle=handle, elem_type=tf.float32))]


@scenario
def control_flow_by_reference(tf: Any, session: Any) -> list:
    add, values = _raw(tf), []
    a, b = (add("VariableV2", shape=[2], dtype=tf.float32) for _ in range(2))
    session.run([tf.assign(a, [1.0, 2.0]).op, tf.assign(b, [3.0, 4.0]).op])
    which, pred = tf.placeholder(tf.int32, []), tf.placeholder(tf.bool, [])
    chosen = tf.assign_add(add("RefSelect", index=which, inputs=[a, b]), [10.0, 10.0])
    for index in (0, 1, 2, -1):
        values += [_outcome(session, chosen.op, {which: index}), session.run([a, b])]
    false, true = add("RefSwitch", data=a, pred=pred)
    merged, index = add("RefMerge", inputs=[false, true])
    for choice in (True, False):
        values += [session.run([tf.identity(merged), index], {pred: choice})]
    entered = add("RefEnter", data=a, frame_name="f", is_constant=False, parallel_iterations=1)
    values.append(session.run(tf.identity(add("RefExit", data=entered))))
    return values


# ---------------------------------------------------------------- tables


@scenario
def tables_of_files(tf: Any, session: Any) -> list:
    add, values = _raw(tf), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words.txt"
        path.write_bytes(b"a\t10\nbb\t20\nc\t30\n")
        for number, (key, value, size, delimiter, kinds) in enumerate((
                (-2, -1, -1, "\t", (tf.string, tf.int64)), (-2, -1, 2, "\t", (tf.string, tf.int64)),
                (0, 1, 3, "\t", (tf.string, tf.int64)), (-1, 0, 3, "\t", (tf.int64, tf.string)),
                (0, 1, 9, "\t", (tf.string, tf.int64)), (0, 5, -1, "\t", (tf.string, tf.int64)),
                (0, 1, -1, ",", (tf.string, tf.int64)), (1, 0, -1, "\t", (tf.int64, tf.string)),
                (-3, 0, -1, "\t", (tf.string, tf.int64)))):
            try:
                handle = add("HashTable", key_dtype=kinds[0], value_dtype=kinds[1],
                             shared_name=f"t{number}")
                fill = add("InitializeTableFromTextFile", table_handle=handle, filename=str(path),
                           key_index=key, value_index=value, vocab_size=size, delimiter=delimiter)
            except ValueError:
                values.append("InvalidArgumentError")
                continue
            values.append(_outcome(session, fill))
            keys = np.array([b"a", b"c", b"bb", b"a\t10"], object) if kinds[0] == tf.string else \
                np.array([0, 20, 2], np.int64)
            default = tf.constant(-1, tf.int64) if kinds[1] == tf.int64 else tf.constant("?")
            found = add("LookupTableFind", table_handle=handle, keys=keys, default_value=default)
            values += [_outcome(session, found), _outcome(session, add(
                "LookupTableSize", table_handle=handle))]
        handle = add("HashTable", key_dtype=tf.string, value_dtype=tf.int64, shared_name="none")
        values.append(_outcome(session, add(
            "InitializeTableFromTextFile", table_handle=handle, filename=folder + "/none",
            key_index=-2, value_index=-1)))
    return values


@scenario
def tables_of_tensors(tf: Any, session: Any) -> list:
    add, values, ours = _raw(tf), [], tf.__name__ == "hpcflow"
    options = {"empty_key": tf.constant(-1, tf.int64), "value_dtype": tf.float32,
               "value_shape": [2], "shared_name": "d"}
    # The reference's own kernel of the first version does not work any more.
    dense = add("MutableDenseHashTable", **options) if ours else add(
        "MutableDenseHashTableV2", deleted_key=tf.constant(-2, tf.int64), **options)
    rows = add("MutableHashTableOfTensors", key_dtype=tf.int64, value_dtype=tf.float32,
               value_shape=[2], shared_name="r")
    keys, asked = tf.constant([5, 7, 5], tf.int64), tf.constant([7, 5, 8], tf.int64)
    for handle, v2 in ((dense, "" if ours else "V2"), (rows, "")):
        session.run(add("LookupTableInsert" + v2, table_handle=handle, keys=keys,
                        values=tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])))
        found = add("LookupTableFind" + v2, table_handle=handle, keys=asked,
                    default_value=tf.constant([0.5, 0.5]))
        exported = add("LookupTableExport" + v2, table_handle=handle, Tkeys=tf.int64,
                       Tvalues=tf.float32)
        out_keys, out_values = session.run(exported)
        out_keys = out_keys.ravel()
        order = np.argsort(out_keys)
        real = out_keys[order] >= 0
        values += [session.run(found), out_keys[order][real], out_values[order][real],
                   session.run(add("LookupTableSize" + v2, table_handle=handle)),
                   _outcome(session, add("LookupTableInsert" + v2, table_handle=handle, keys=keys,
                                         values=tf.constant([[1.0], [2.0], [3.0]])))]
    values.append(_outcome(session, add(
        "LookupTableInsert" + ("" if ours else "V2"), table_handle=dense,
        keys=tf.constant([-1], tf.int64), values=tf.constant([[1.0, 2.0]]))))
    return values


@scenario
def tables_by_resource(tf: Any, session: Any) -> list:
    """The second versions, whose handles are resources, and their values in one order."""
    add, values = _raw(tf), []
    words, ids = tf.constant(["a", "bb", "c"]), tf.constant([1, 2, 3], tf.int64)
    asked, default = tf.constant([["c", "x"]]), tf.constant(-1, tf.int64)
    kinds = {"key_dtype": tf.string, "value_dtype": tf.int64}
    found = {"keys": asked, "default_value": default}
    static = add("HashTableV2", shared_name="s2", **kinds)
    values.append(_outcome(session, add("LookupTableFindV2", table_handle=static, **found)))
    session.run(add("InitializeTableV2", table_handle=static, keys=words, values=ids))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words.txt"
        path.write_bytes(b"a\nbb\nc\n")
        lines = add("HashTableV2", shared_name="l2", **kinds)
        session.run(add("InitializeTableFromTextFileV2", table_handle=lines, filename=str(path),
                        key_index=-2, value_index=-1))
    imported = add("HashTableV2", shared_name="i2", **kinds)
    session.run(add("LookupTableImportV2", table_handle=imported, keys=words, values=ids))
    changing = add("MutableHashTableV2", shared_name="m2", **kinds)
    session.run(add("LookupTableInsertV2", table_handle=changing, keys=words, values=ids))
    for table in (static, lines, imported, changing):
        values += session.run([add("LookupTableFindV2", table_handle=table, **found),
                               add("LookupTableSizeV2", table_handle=table)])
    out_keys, out_values = session.run(add("LookupTableExportV2", table_handle=changing,
                                           Tkeys=tf.string, Tvalues=tf.int64))
    order = np.argsort(out_values)
    rows = add("MutableHashTableOfTensorsV2", key_dtype=tf.int64, value_dtype=tf.float32,
               value_shape=[2], shared_name="r2")
    session.run(add("LookupTableInsertV2", table_handle=rows, keys=ids,
                    values=tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])))
    row = add("LookupTableFindV2", table_handle=rows, keys=tf.constant([3, 9], tf.int64),
              default_value=tf.constant([0.5, 0.5]))
    return [*values, out_keys[order], out_values[order], session.run(row)]


# ---------------------------------------------------------------- samplers

_SAMPLED, _RANGE = 4000, 12
_SAMPLERS: dict[str, dict] = {
    "UniformCandidateSampler": {"range_max": _RANGE},
    "LogUniformCandidateSampler": {"range_max": _RANGE},
    "LearnedUnigramCandidateSampler": {"range_max": _RANGE},
    "ThreadUnsafeUnigramCandidateSampler": {"range_max": _RANGE},
    "FixedUnigramCandidateSampler": {
        "range_max": _RANGE, "unigrams": [float(i + 1) for i in range(_RANGE - 2)],
        "distortion": 0.5, "num_reserved_ids": 2},
}


@scenario
def samplers(tf: Any, session: Any) -> list:
    """What is expected of a class equals the reference's, and is how often it is drawn."""
    add, values = _raw(tf), []
    for op, options in _SAMPLERS.items():
        if op == "FixedUnigramCandidateSampler":
            options = {**options, "vocab_file": "", "num_shards": 1, "shard": 0}
        true = tf.constant(np.arange(_RANGE).reshape(6, 2), tf.int64)
        outputs = add(op, true_classes=true, num_true=2, num_sampled=_SAMPLED, unique=False,
                      seed=3, seed2=5, **options)
        drawn, expected, of_drawn = session.run(list(outputs))
        counts = np.bincount(drawn, minlength=_RANGE)
        per_class = expected.ravel()
        wrong = np.abs(counts - per_class) > 6 * np.sqrt(per_class + 1)
        same = np.abs(of_drawn - per_class[drawn]) <= 1e-3 * per_class[drawn]
        # The learned samplers learn the classes of this step before or after they draw.
        learned = "Unigram" in op and "Fixed" not in op
        values += [op, len(drawn), np.zeros(0) if learned else expected,
                   bool(learned or not wrong.any()), bool(learned or same.all())]
        unique = add(op, true_classes=true, num_true=2, num_sampled=_RANGE - 2, unique=True,
                     seed=3, seed2=5, **options)
        drawn = session.run(unique[0])
        values += [len(set(drawn.tolist())), _outcome(session, add(
            op, true_classes=tf.placeholder_with_default(np.int64([[1, 2]]), None), num_true=1,
            num_sampled=3, unique=False, seed=1, seed2=1, **options)[0])]
    for count in (5, _RANGE):
        found = _outcome(session, list(add("AllCandidateSampler", true_classes=true, num_true=2,
                                           num_sampled=count, unique=True)))
        values += [found] if isinstance(found, str) else [np.sort(found[0]), *found[1:]]
    hits = add("ComputeAccidentalHits", true_classes=tf.constant([[1, 2], [3, 1]], tf.int64),
               sampled_candidates=tf.constant([3, 1, 1, 7], tf.int64), num_true=2)
    rows, ids, weights = session.run(list(hits))
    order = np.lexsort((ids, rows))
    return [*values, rows[order], ids[order], weights[order]]


# ---------------------------------------------------------------- summaries


@scenario
def media_summaries(tf: Any, session: Any) -> list:
    add, values = _raw(tf), []
    pictures = np.linspace(-1, 1, 2 * 3 * 4).reshape(2, 3, 4, 1).astype(np.float32)
    for images in (pictures, np.abs(pictures), (pictures * 100 + 120).astype(np.uint8),
                   np.concatenate([pictures] * 3, 3), np.where(pictures > 0.9, np.nan, pictures)):
        text = add("ImageSummary", tag=tf.constant("pictures"), tensor=tf.constant(images),
                   max_images=2)
        for value in _summary(tf, session.run(text)).value:
            image = value.image
            pixels = session.run(tf.image.decode_png(image.encoded_image_string))
            values += [value.tag, image.height, image.width, image.colorspace, pixels]
    sound = np.sin(np.arange(40, dtype=np.float32)).reshape(2, 10, 2)
    for tensor in (sound, sound[:, :, 0], sound[:1] * 2):
        text = add("AudioSummaryV2", tag=tf.constant("sound"), tensor=tf.constant(tensor),
                   sample_rate=tf.constant(44100.0), max_outputs=3)
        for value in _summary(tf, session.run(text)).value:
            audio = value.audio
            values += [value.tag, audio.sample_rate, audio.num_channels, audio.length_frames,
                       audio.content_type, audio.encoded_audio_string]
    for bad in (np.zeros((2, 3), np.float32), np.zeros((1, 2, 2, 2), np.float32)):
        values.append(_outcome(session, add(
            "ImageSummary", tag=tf.constant("x"), tensor=tf.placeholder_with_default(bad, None))))
    values.append(_outcome(session, add(
        "AudioSummaryV2", tag=tf.constant("x"), sample_rate=tf.constant(1.0),
        tensor=tf.placeholder_with_default(np.float32(1), None))))
    return values


@scenario
def audio_of_fixed_rate(tf: Any, session: Any) -> list:
    """The first form, which has the rate as an attribute; the reference refuses it now."""
    add, ours = _raw(tf), tf.__name__ == "hpcflow"
    sound = np.cos(np.arange(20, dtype=np.float32)).reshape(1, 20)
    inputs = {"tag": tf.constant("sound"), "tensor": tf.constant(sound)}
    text = add("AudioSummary", sample_rate=8000.0, **inputs) if ours else add(
        "AudioSummaryV2", sample_rate=tf.constant(8000.0), **inputs)
    audio = _summary(tf, session.run(text)).value[0].audio
    return [audio.sample_rate, audio.length_frames, audio.encoded_audio_string]


@scenario
def tensor_summaries(tf: Any, session: Any) -> list:
    add, values = _raw(tf), []
    x = tf.constant([[1.0, 2.0]])
    for text in (add("TensorSummary", tensor=x, description="d", labels=["a"], display_name="n"),
                 add("TensorSummaryV2", tag=tf.constant("t"), tensor=x,
                     serialized_summary_metadata=tf.constant(b""))):
        value = _summary(tf, session.run(text)).value[0]
        shape = [d.size for d in value.tensor.tensor_shape.dim]
        values += [value.tensor.dtype, shape, value.tensor.tensor_content
                   or np.array(value.tensor.float_val, np.float32).tobytes()]
    return values


def _summary(tf: Any, data: bytes) -> Any:
    message = tf.Summary()
    message.ParseFromString(data)
    return message


# ---------------------------------------------------------------- Python, facts


@scenario
def python_functions(tf: Any, session: Any) -> list:
    x = tf.placeholder(tf.float32)
    twice = tf.py_func(lambda a: (a * 2, np.int64(a.size)), [x], [tf.float32, tf.int64])
    pure = tf.py_func(lambda a: a + np.float32(1), [x], tf.float32, stateful=False)

    def fail(a: Any) -> Any:
        raise ValueError("no")

    wrong = tf.py_func(lambda a: a.astype(np.int32), [x], tf.float32)
    feeds = {x: np.arange(3, dtype=np.float32)}
    return [session.run([*twice, pure], feeds),
            _outcome(session, tf.py_func(fail, [x], tf.float32), feeds),
            _outcome(session, wrong, feeds),
            session.run(tf.py_func(lambda: np.array([b"a", b"bc"], object), [], tf.string))]


@scenario
def facts(tf: Any, session: Any) -> list:
    return [type(session.run(_raw(tf)("Fact"))).__name__]


# ---------------------------------------------------------------- lists of tensors


@scenario
def tensor_lists(tf: Any, session: Any) -> list:
    add = _raw(tf)
    shape, rows = tf.constant([2]), tf.constant(np.arange(6.0, dtype=np.float32).reshape(3, 2))
    typed = {"element_dtype": tf.float32}
    full = add("TensorListFromTensor", tensor=rows, element_shape=shape)
    empty = add("EmptyTensorList", element_shape=shape, max_num_elements=tf.constant(-1), **typed)
    pushed = add("TensorListPushBack", input_handle=empty, tensor=tf.constant([7.0, 8.0]))
    popped, last = add("TensorListPopBack", input_handle=full, element_shape=shape, **typed)
    reserved = add("TensorListReserve", element_shape=shape, num_elements=tf.constant(2), **typed)
    changed = add("TensorListSetItem", input_handle=reserved, index=tf.constant(1),
                  item=tf.constant([5.0, 6.0]))
    scattered = add("TensorListScatterV2", tensor=rows, indices=tf.constant([2, 0, 1]),
                    element_shape=shape, num_elements=tf.constant(-1))
    into = add("TensorListScatterIntoExistingList", input_handle=full, tensor=rows * 10.0,
               indices=tf.constant([1, 0, 2]))
    split = add("TensorListSplit", tensor=rows, element_shape=tf.constant([-1, 2]),
                lengths=tf.constant([1, 2], tf.int64))
    longer = add("TensorListResize", input_handle=full, size=tf.constant(2))

    def item(handle: Any, index: int) -> Any:
        return add("TensorListGetItem", input_handle=handle, index=tf.constant(index),
                   element_shape=shape, **typed)

    def stack(handle: Any) -> Any:
        return add("TensorListStack", input_handle=handle, element_shape=shape, **typed)

    joined, lengths = add("TensorListConcatV2", input_handle=split, element_shape=tf.constant(
        [-1, 2]), leading_dims=tf.constant([1, 2], tf.int64), **typed)
    values = session.run([
        stack(full), add("TensorListLength", input_handle=pushed), item(pushed, 0), last,
        stack(popped), item(changed, 1), stack(changed), stack(scattered), stack(into), joined,
        lengths, stack(longer), add("TensorListElementShape", input_handle=full,
                                    shape_type=tf.int32),
        add("TensorListGather", input_handle=full, indices=tf.constant([2, 0]),
            element_shape=shape, **typed)])
    return [*values, _outcome(session, item(full, 3)), _outcome(session, item(full, -1)),
            _outcome(session, add("TensorListPopBack", input_handle=empty, element_shape=shape,
                                  **typed)[1]),
            _outcome(session, stack(add("TensorListPushBack", input_handle=full,
                                        tensor=tf.constant([1.0]))))]
