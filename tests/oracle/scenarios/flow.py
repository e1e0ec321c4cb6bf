"""Programs of what lives within a step: TensorArrays, stacks, lists, control flow by reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from scenarios import _outcome, raw, scenario


def _array_program(tf: Any, session: Any, version: str) -> list:
    """The same steps in a version of ours that the reference refuses, and in its own."""
    add, ours = raw(tf), tf.__name__ == "hpcflow"
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
    add = raw(tf)
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
    add, values = raw(tf), []
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
    return [type(session.run(raw(tf)("Fact"))).__name__]


@scenario
def tensor_lists(tf: Any, session: Any) -> list:
    add = raw(tf)
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
