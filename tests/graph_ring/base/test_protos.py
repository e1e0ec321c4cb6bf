"""Protobuf messages made at run time: fields and bytes as the published formats have them."""

from __future__ import annotations

import pytest

import hpcflow as hf
from hpcflow.base.formats import protos


def test_examples():
    features = hf.train.Features(feature={
        "ints": hf.train.Feature(int64_list=hf.train.Int64List(value=[1, -2])),
        "floats": hf.train.Feature(float_list=hf.train.FloatList(value=[0.5])),
        "texts": hf.train.Feature(bytes_list=hf.train.BytesList(value=[b"a", b"\xff"])),
    })
    example = hf.train.Example(features=features)
    back = hf.train.Example.FromString(example.SerializeToString())
    assert back == example
    assert list(back.features.feature["ints"].int64_list.value) == [1, -2]
    assert back.features.feature["texts"].WhichOneof("kind") == "bytes_list"


def test_bytes_of_an_example():
    """Written by hand from the format: packed numbers, maps as repeated entries."""
    feature = hf.train.Feature(int64_list=hf.train.Int64List(value=[1, 300]))
    example = hf.train.Example(features=hf.train.Features(feature={"x": feature}))
    numbers = b"\x0a\x03\x01\xac\x02"  # field 1, packed, three bytes
    value = b"\x1a\x05" + numbers  # field 3: int64_list
    entry = b"\x0a\x01x" + b"\x12\x07" + value
    assert example.SerializeToString() == b"\x0a\x0e\x0a\x0c" + entry


def test_sequences():
    steps = hf.train.FeatureList(feature=[hf.train.Feature(
        float_list=hf.train.FloatList(value=[i])) for i in range(3)])
    example = hf.train.SequenceExample(
        feature_lists=hf.train.FeatureLists(feature_list={"steps": steps}))
    back = hf.train.SequenceExample.FromString(example.SerializeToString())
    assert [f.float_list.value[0] for f in back.feature_lists.feature_list["steps"].feature] == [
        0, 1, 2]


def test_server_definitions():
    cluster = hf.train.ClusterSpec({"ps": ["a:1"], "worker": ["a:2"]}).as_cluster_def()
    config = hf.ConfigProto(allow_soft_placement=True)
    proto = protos.server_def(cluster, "worker", 0, "mpi", config)
    assert isinstance(proto, hf.train.ServerDef)
    assert hf.train.ClusterSpec(proto.cluster).task_address("ps", 0) == "a:1"
    assert (proto.job_name, proto.task_index, proto.protocol) == ("worker", 0, "mpi")
    assert proto.default_session_config.allow_soft_placement
    assert not protos.server_def(cluster, "ps", 0).HasField("default_session_config")


def test_names():
    with pytest.raises(KeyError, match=r"no message called 'Nothing'; there are .*BytesList"):
        protos.message_class("Nothing")
    with pytest.raises(AttributeError, match="'Nothing'"):
        _ = hf.train.Nothing
    assert {"Example", "SaverDef", "Saver"} <= set(dir(hf.train))
    assert hf.train.SaverDef.V2 == 2
