"""Parsing of strings: raw bytes, CSV, JSON, tensors, examples."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.graph.raw import raw_ops

INVALID = hf.errors.InvalidArgumentError


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        yield session


def feature(*values):
    kind = {float: "float_list", int: "int64_list", bytes: "bytes_list"}[type(values[0])]
    found = hf.train.Feature()
    getattr(found, kind).value.extend(values)
    return found


def example(**features):
    message = hf.train.Example()
    for key, values in features.items():
        message.features.feature[key].CopyFrom(feature(*values))
    return message.SerializeToString()


def test_raw_bytes(session):
    values = np.arange(6, dtype=np.int16).reshape(3, 2)
    raw = hf.decode_raw([row.tobytes() for row in values], hf.int16)
    assert raw.shape.as_list() == [3, None]
    np.testing.assert_array_equal(session.run(raw), values)
    swapped = session.run(hf.decode_raw(b"\0\1\0\2", hf.int16, little_endian=False))
    assert swapped.tolist() == [1, 2] and swapped.dtype == np.int16
    assert session.run(hf.decode_raw(np.empty((0, 2), object), hf.float32)).shape == (0, 2, 0)
    for wrong in (["abc"], ["ab", "abcd"]):
        with pytest.raises(INVALID, match="DecodeRaw"):
            session.run(hf.decode_raw(wrong, hf.int16))


def test_csv(session):
    lines = ['1,2.5,x,9', ',,"a ""b"", c",', '-3,1e2,"",8']
    a, b, c, d = hf.decode_csv(lines, [[7], [0.5], ["none"], np.array([1], np.int64)])
    assert [t.dtype for t in (a, b, c, d)] == [hf.int32, hf.float32, hf.string, hf.int64]
    found = session.run([a, b, c, d])
    assert [v.tolist() for v in found] == [
        [1, 7, -3], [2.5, 0.5, 100.0], [b"x", b'a "b", c', b"none"], [9, 1, 8]]
    one = hf.decode_csv("4;x", [[0], [""]], field_delim=";")
    assert one[0].shape.as_list() == [] and session.run(one) == [4, b"x"]


@pytest.mark.parametrize(("line", "says"), [
    ("1", "Expect 2 fields but have 1"), ("1,2,3", "have 3"), ("", "have 0"),
    ("x,2", "Field 0 in record 0 is not a valid int32: x"), ("2147483648,a", "valid int32"),
    ('1,a"b', "Unquoted"), ('1,"a"b', "escaped"), ('1,"ab', "has to end"), ("1,a\n", "CRLF"),
    (",a", "Field 0 is required but missing in record 0"), ("1_0,a", "valid int32")])
def test_wrong_csv(session, line, says):
    with pytest.raises(INVALID, match=says):
        session.run(hf.decode_csv([line], [np.empty(0, np.int32), [""]]))


def test_tensors(session):
    value = np.array([[1.5, 2], [3, 4]], np.float32)
    serialized = hf.contrib.util.make_tensor_proto(value).SerializeToString()
    np.testing.assert_array_equal(session.run(hf.parse_tensor(serialized, hf.float32)), value)
    for wrong, dtype in ((serialized, hf.int32), (b"zz", hf.float32), (serialized[:-3], hf.float32),
                         (b"", hf.float32)):
        with pytest.raises(INVALID):
            session.run(hf.parse_tensor(wrong, dtype))


def test_json(session):
    text = '{"features": {"feature": {"a": {"int64List": {"value": ["1", "2"]}}}}}'
    binary = hf.decode_json_example([text, "{}"])
    assert session.run(binary).tolist() == [example(a=[1, 2]), b""]
    for wrong in ("", "{", '{"x": 1}'):
        with pytest.raises(INVALID, match="JSON"):
            session.run(hf.decode_json_example(wrong))


# ---------------------------------------------------------------- examples


def test_dense_features(session):
    serialized = [example(x=[1.0, 2.0], n=[5], s=[b"a"]), example(x=[3.0, 4.0], s=[b"b"])]
    parsed = hf.parse_example(serialized, {
        "x": hf.FixedLenFeature([2], hf.float32), "n": hf.FixedLenFeature([], hf.int64, -1),
        "s": hf.FixedLenFeature([1, 1], hf.string)})
    assert parsed["x"].shape.as_list() == [2, 2] and parsed["n"].shape.as_list() == [2]
    found = session.run(parsed)
    assert found["x"].tolist() == [[1, 2], [3, 4]] and found["x"].dtype == np.float32
    assert found["n"].tolist() == [5, -1] and found["s"].tolist() == [[[b"a"]], [[b"b"]]]


def test_numbers_of_all_sizes(session):
    numbers = [0, 1, 127, 128, 300, -1, 2**63 - 1, -2**63, 2**35, 16384]
    serialized = [example(n=numbers), example(n=numbers[::-1]), example(n=[1] * 10)]
    found = session.run(hf.parse_example(serialized, {"n": hf.FixedLenFeature([10], hf.int64)}))
    assert found["n"].tolist() == [numbers, numbers[::-1], [1] * 10]
    parts = raw_sparse(session, [*serialized, b"", example(n=[2**40, 3])], "n", hf.int64)
    assert parts[1].tolist() == numbers + numbers[::-1] + [1] * 10 + [2**40, 3]
    assert np.bincount(parts[0][:, 0]).tolist() == [10, 10, 10, 0, 2]


def test_numbers_that_are_not_packed(session):
    """Older writers give every number a field of its own."""
    floats = b"\x12\x0a\r\x00\x00\xc0?\r\x00\x00\x00@"  # 1.5 and 2.0
    ints = b"\x1a\x05\x08\x05\x08\xac\x02"  # 5 and 300

    def message(key, feature):
        entry = b"\n" + bytes([len(key)]) + key + b"\x12" + bytes([len(feature)]) + feature
        entry = b"\n" + bytes([len(entry)]) + entry
        return b"\n" + bytes([len(entry)]) + entry

    assert hf.train.Example.FromString(message(b"a", ints)).features.feature["a"].int64_list.value
    for key, content, dtype, expected in ((b"a", floats, hf.float32, [1.5, 2.0]),
                                          (b"a", ints, hf.int64, [5, 300])):
        serialized = [message(key, content)]
        found = session.run(hf.parse_example(serialized, {"a": hf.FixedLenFeature([2], dtype)}))
        assert found["a"].tolist() == [expected]


@pytest.mark.parametrize(("data", "spec", "says"), [
    ({"b": [1.0]}, ([], hf.float32), "Feature: a .*required"),
    ({"a": [1]}, ([], hf.float32, 7.0), "types don't match"),
    ({"a": [1.0, 2.0]}, ([3], hf.float32), "values size: 2"),
    ({"a": [b"x"]}, ([], hf.int64), "types don't match")])
def test_examples_that_do_not_fit(session, data, spec, says):
    with pytest.raises(INVALID, match=says):
        session.run(hf.parse_example([example(**data)], {"a": hf.FixedLenFeature(*spec)}))
    with pytest.raises(INVALID, match="Name: nm"):
        session.run(hf.parse_example([example(**data)], {"a": hf.FixedLenFeature(*spec)},
                                     example_names=["nm"]))


def test_damaged_examples(session):
    whole = example(a=[1.0, 2.0, 3.0], n=[300, 5])
    fed = hf.placeholder(hf.string, [None])
    parsed = raw_ops.ParseExample(
        serialized=fed, names=[], sparse_keys=["a"], dense_keys=["n"],
        dense_defaults=[np.empty(0, np.int64)], sparse_types=[hf.float32], Tdense=[hf.int64],
        dense_shapes=[[2]])
    with pytest.raises(INVALID):
        session.run(parsed, {fed: [b"zzz"]})
    rng = np.random.default_rng(3)
    for _ in range(200):  # whatever comes, it is an error or a result
        data = bytearray(whole)
        data[rng.integers(len(data))] = rng.integers(256)
        try:
            session.run(parsed, {fed: [bytes(data[:rng.integers(1, len(data) + 1)])]})
        except INVALID:
            continue


def test_lists_in_a_batch(session):
    serialized = [example(a=[1, 2, 3, 4]), example(a=[5, 6]), b""]
    spec = hf.FixedLenSequenceFeature([2], hf.int64, allow_missing=True, default_value=-1)
    parsed = hf.parse_example(serialized, {"a": spec})["a"]
    assert parsed.shape.as_list() == [3, None, 2]
    assert session.run(parsed).tolist() == [
        [[1, 2], [3, 4]], [[5, 6], [-1, -1]], [[-1, -1], [-1, -1]]]
    words = hf.parse_example([example(a=[b"q"]), b""], {
        "a": hf.FixedLenSequenceFeature([], hf.string, allow_missing=True)})["a"]
    assert session.run(words).tolist() == [[b"q"], [b""]]
    with pytest.raises(INVALID, match="multiple of stride"):
        session.run(hf.parse_example([example(a=[1])], {"a": spec}))
    with pytest.raises(ValueError, match="allow_missing"):
        hf.parse_example([b""], {"a": hf.FixedLenSequenceFeature([2], hf.int64)})


def raw_sparse(session, serialized, key, dtype):
    parts = raw_ops.ParseExample(
        serialized=serialized, names=[], sparse_keys=[key], dense_keys=[], dense_defaults=[],
        sparse_types=[dtype], Tdense=[], dense_shapes=[])
    return session.run([p[0] for p in parts[:3]])


def test_sparse_parts(session):
    serialized = [example(a=[1.0, 2.0]), b"", example(a=[3.0])]
    indices, values, shape = raw_sparse(session, serialized, "a", hf.float32)
    assert indices.tolist() == [[0, 0], [0, 1], [2, 0]] and values.tolist() == [1, 2, 3]
    assert shape.tolist() == [3, 2]
    indices, values, shape = raw_sparse(session, [b"", b""], "a", hf.string)
    assert indices.shape == (0, 2) and values.shape == (0,) and shape.tolist() == [2, 0]


def test_specs_that_cannot_be():
    for spec, says in ((hf.FixedLenFeature(None, hf.float32), "Missing shape"),
                       (hf.FixedLenFeature([None], hf.float32), "First dimension"),
                       (hf.FixedLenFeature([], None), "Missing type"), (3, "Unsupported")):
        with pytest.raises(ValueError, match=says):
            hf.parse_example([b""], {"a": spec})
    with pytest.raises(ValueError, match="Missing"):
        hf.parse_example([b""], {})
    with pytest.raises(ValueError, match="Missing"):
        hf.parse_single_sequence_example(b"")
    with pytest.raises(ValueError, match="Unsupported"):
        hf.parse_single_sequence_example(b"", {"a": hf.FixedLenSequenceFeature([], hf.int64)})
    with pytest.raises((ValueError, TypeError)):
        hf.parse_example([b""], {"a": hf.FixedLenFeature([], hf.int32)})


def sparse_parts(value):
    return [part.tolist() for part in value]


def test_sparse_features(session):
    serialized = [example(a=[1.0, 2.0], i=[5, 2], w=[b"x"]), b"", example(a=[3.0], i=[7])]
    parsed = hf.parse_example(serialized, {
        "a": hf.VarLenFeature(hf.float32), "w": hf.VarLenFeature(hf.string),
        "s": hf.SparseFeature("i", "a", hf.float32, 10)})
    assert sorted(parsed) == ["a", "s", "w"]
    found = session.run(parsed)
    assert sparse_parts(found["a"]) == [[[0, 0], [0, 1], [2, 0]], [1, 2, 3], [3, 2]]
    assert sparse_parts(found["s"]) == [[[0, 2], [0, 5], [2, 7]], [2, 1, 3], [3, 10]]
    assert sparse_parts(found["w"]) == [[[0, 0]], [b"x"], [3, 1]]


def test_a_single_example(session):
    serialized = hf.placeholder(hf.string, [])
    parsed = hf.parse_single_example(serialized, {
        "a": hf.FixedLenFeature([2], hf.float32), "b": hf.VarLenFeature(hf.int64),
        "c": hf.FixedLenSequenceFeature([], hf.int64, allow_missing=True)})
    assert parsed["a"].shape.as_list() == [2] and parsed["c"].shape.as_list() == [None]
    found = session.run(parsed, {serialized: example(a=[1.0, 2.0], b=[3, 4])})
    assert found["a"].tolist() == [1, 2] and found["c"].tolist() == []
    assert sparse_parts(found["b"]) == [[[0], [1]], [3, 4], [2]]
    with pytest.raises(ValueError, match="rank"):
        hf.parse_single_example([b""], {"a": hf.FixedLenFeature([2], hf.float32)})


def sequence(context, **lists):
    message = hf.train.SequenceExample()
    for key, values in context.items():
        message.context.feature[key].CopyFrom(feature(*values))
    for key, steps in lists.items():
        message.feature_lists.feature_list[key].SetInParent()
        for values in steps:
            step = message.feature_lists.feature_list[key].feature.add()
            if values:
                step.CopyFrom(feature(*values))
    return message.SerializeToString()


def test_a_sequence_example(session):
    serialized = sequence({"n": [3], "w": [b"a", b"b"]}, x=[[1, 2], [3, 4]],
                          y=[[b"q"], [], [b"r", b"s"]])
    context, lists = hf.parse_single_sequence_example(
        serialized,
        {"n": hf.FixedLenFeature([], hf.int64), "w": hf.VarLenFeature(hf.string),
         "d": hf.FixedLenFeature([2], hf.float32, [1.0, 2.0])},
        {"x": hf.FixedLenSequenceFeature([2], hf.int64), "y": hf.VarLenFeature(hf.string),
         "z": hf.FixedLenSequenceFeature([3], hf.float32, allow_missing=True)})
    assert lists["x"].shape.as_list() == [None, 2]
    context, lists = session.run([context, lists])
    assert context["n"] == 3 and context["d"].tolist() == [1, 2]
    assert sparse_parts(context["w"]) == [[[0], [1]], [b"a", b"b"], [2]]
    assert lists["x"].tolist() == [[1, 2], [3, 4]] and lists["z"].shape == (0, 3)
    assert sparse_parts(lists["y"]) == [[[0, 0], [2, 0], [2, 1]], [b"q", b"r", b"s"], [3, 2]]


@pytest.mark.parametrize(("serialized", "says"), [
    (b"zz", "Could not parse"), (sequence({"n": [1]}), "Feature list 'x' is required"),
    (sequence({"n": [1]}, x=[[1, 2], [3]]), "values size: 1"),
    (sequence({"n": [1]}, x=[[1, 2], []]), "values size: 0"),
    (sequence({"n": [1]}, x=[[1, 2], [b"a"]]), "types don't match"),
    (sequence({"n": [b"a"]}, x=[]), "Context feature: n"), (sequence({}, x=[]), "required")])
def test_wrong_sequence_examples(session, serialized, says):
    parsed = hf.parse_single_sequence_example(
        serialized, {"n": hf.FixedLenFeature([], hf.int64)},
        {"x": hf.FixedLenSequenceFeature([2], hf.int64)})
    with pytest.raises(INVALID, match=says):
        session.run(parsed)


def test_a_batch_of_sequence_examples(session):
    serialized = [sequence({"n": [3], "v": [1.0, 2.0]}, x=[[1, 2], [3, 4]], y=[[b"q"], [], [b"r"]]),
                  sequence({"v": [5.0]}, x=[[7, 8]], z=[[b"s\0"]]), sequence({"n": [9]}, x=[])]
    batch = hf.placeholder(hf.string, [None])
    parsed = hf.io.parse_sequence_example(
        batch, {"n": hf.FixedLenFeature([], hf.int64, -1), "v": hf.VarLenFeature(hf.float32)},
        {"x": hf.FixedLenSequenceFeature([2], hf.int64), "y": hf.VarLenFeature(hf.string),
         "z": hf.FixedLenSequenceFeature([], hf.string, allow_missing=True)},
        example_names=["first", "second", "third"])
    assert parsed[1]["x"].shape.as_list() == [None, None, 2]
    context, lists, lengths = session.run(parsed, {batch: serialized})
    assert context["n"].tolist() == [3, -1, 9]
    assert sparse_parts(context["v"]) == [[[0, 0], [0, 1], [1, 0]], [1, 2, 5], [3, 2]]
    assert lists["x"].tolist() == [[[1, 2], [3, 4]], [[7, 8], [0, 0]], [[0, 0], [0, 0]]]
    assert sparse_parts(lists["y"]) == [[[0, 0, 0], [0, 2, 0]], [b"q", b"r"], [3, 3, 1]]
    assert lists["z"].tolist() == [[b""], [b"s\0"], [b""]]
    assert lengths["x"].tolist() == [2, 1, 0] and lengths["z"].tolist() == [0, 1, 0]
    with pytest.raises(INVALID, match=r"Name: third.*'x' is required"):
        session.run(parsed[1], {batch: [*serialized[:2], sequence({})]})


def test_a_default_of_sequence_examples_has_the_shape_of_its_feature(session):
    parsed = hf.raw_ops.ParseSequenceExample(
        serialized=[sequence({}, x=[])], debug_name=[],
        context_dense_defaults=[np.ones((1, 2), "float32")],
        context_dense_keys=["v"], context_dense_shapes=[[2]], Ncontext_dense=1,
        context_sparse_keys=[], feature_list_sparse_keys=[], feature_list_dense_keys=[],
        feature_list_dense_missing_assumed_empty=[])
    with pytest.raises(INVALID, match=r"default has shape \[1,2\]"):
        session.run(parsed.context_dense_values)


def test_an_empty_batch_of_sequence_examples(session):
    lists = hf.io.parse_sequence_example(np.zeros(0, object), None, {
        "x": hf.FixedLenSequenceFeature([2], hf.int64), "y": hf.VarLenFeature(hf.string)})[1]
    x, y = session.run([lists["x"], lists["y"]])
    assert x.shape == (0, 0, 2) and sparse_parts(y) == [[], [], [0, 0, 0]]


def test_sparse_features_of_two_dimensions(session):
    serialized = [example(row=[1, 0], column=[0, 2], value=[5.0, 6.0])]
    spec = hf.SparseFeature(["row", "column"], "value", hf.float32, [2, 3])
    found = session.run(hf.parse_example(serialized, {"m": spec})["m"])
    assert found.indices.tolist() == [[0, 0, 2], [0, 1, 0]]
    assert found.values.tolist() == [6, 5] and found.dense_shape.tolist() == [1, 2, 3]


def test_what_is_no_tensor_is_shown(session):
    with pytest.raises(hf.errors.InvalidArgumentError, match="TensorProto: 'ab', base64: YWI="):
        session.run(hf.parse_tensor("ab", hf.int32))


def test_raw_numbers_of_later_types():
    with hf.Session() as session:
        half, wide, flags = session.run([
            hf.decode_raw(b"\x3f\x80\xc0\x00", hf.bfloat16, little_endian=False),
            hf.decode_raw(np.array([1 + 2j], np.complex64).tobytes(), hf.complex64),
            hf.decode_raw(b"\0\1", hf.bool)])
    assert half.astype(float).tolist() == [1, -2]
    assert wide.tolist() == [1 + 2j] and flags.tolist() == [False, True]
