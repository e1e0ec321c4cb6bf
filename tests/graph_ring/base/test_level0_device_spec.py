"""Device names: every accepted form, merging, matching."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hpcflow.device_spec import (
    DeviceSpec,
    DeviceSpecV2,
    canonical_name,
    matches,
    merge_device,
    merge_names,
)


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("", ""),
        ("/", ""),
        ("/cpu:0", "/device:CPU:0"),
        ("/gpu:1", "/device:GPU:1"),
        ("CPU:0", "/device:CPU:0"),
        ("/cpu", "/device:CPU:*"),
        ("/device:gpu:0", "/device:GPU:0"),
        ("/device:FAKE:2", "/device:FAKE:2"),
        ("/device:CPU:*", "/device:CPU:*"),
        ("/device:*:1", "/device:*:1"),
        ("/job:ps/task:1", "/job:ps/task:1"),
        ("/job:*/task:*/replica:*", ""),
        ("/task:1/job:ps", "/job:ps/task:1"),
        ("/job:a/replica:0/task:0/cpu:0", "/job:a/replica:0/task:0/device:CPU:0"),
    ],
)
def test_forms(given, canonical):
    assert canonical_name(given) == DeviceSpec.from_string(given).to_string() == canonical
    assert canonical_name(canonical) == canonical


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("/foo:1", "/foo:1"),
        ("/job:ps/task:x", "/task:x"),
        ("/task:-1", "/task:-1"),
        ("/job:", "/job:"),
        ("/job:a b", "/job:a b"),
        ("/device:GPU", "/device:GPU"),
        ("/device:1:1", "/device:1:1"),
        ("/cpu:0/gpu:0", "/gpu:0"),
        ("/job:a/job:b", "/job:b"),
        ("nonsense", "/nonsense"),
    ],
)
def test_errors_name_the_bad_part(given, part):
    with pytest.raises(ValueError, match=f"part '{part}' of device name '{given}'"):
        DeviceSpec.from_string(given)


def test_fields_are_checked_and_assignable():
    spec = DeviceSpec(job="ps", task=1, device_type="gpu")
    assert (spec.job, spec.replica, spec.task) == ("ps", None, 1)
    assert spec.device_type == "GPU" and spec.device_index is None
    spec.device_index = 0
    assert str(spec) == "/job:ps/task:1/device:GPU:0"
    assert spec == DeviceSpec.from_string("/job:ps/task:1/gpu:0") and len({spec, spec}) == 1
    assert spec.parse_from_string("/cpu:0") is spec and spec.job is None
    for bad in ({"task": -1}, {"job": "a/b"}, {"device_type": "a:b"}, {"device_index": "x"}):
        with pytest.raises(ValueError, match=str(next(iter(bad.values())))):
            DeviceSpec(**bad)


def test_merging():
    spec = DeviceSpec.from_string("/job:worker/cpu:0")
    spec.merge_from(DeviceSpec(job="ps", task=3))
    assert spec.to_string() == "/job:ps/task:3/device:CPU:0"
    assert merge_names("/job:worker/task:1", "/job:ps") == "/job:ps/task:1"
    assert merge_names(None, DeviceSpec(task=2)) == "/task:2"


def test_device_function_lets_the_inner_device_win():
    function = merge_device("/job:worker/task:0/cpu:0")
    assert function(SimpleNamespace(device="")) == "/job:worker/task:0/device:CPU:0"
    assert function(SimpleNamespace(device="/job:ps")) == "/job:ps/task:0/device:CPU:0"
    with pytest.raises(ValueError, match="/foo"):
        merge_device("/foo")


def test_matching():
    full = "/job:worker/replica:0/task:1/device:GPU:0"
    for partial in ("", None, "/gpu:0", "/gpu:*", "/job:worker", "/task:1/gpu", full):
        assert matches(partial, full)
    for partial in ("/gpu:1", "/cpu:0", "/job:ps", "/task:0"):
        assert not matches(partial, full)
    assert not matches("/task:0", "")


def test_new_specifications_from_old_ones():
    spec = DeviceSpec.from_string("/job:w/device:GPU:1")
    assert spec.replace(job="ps", task=2).to_string() == "/job:ps/task:2/device:GPU:1"
    assert spec.replace(device_type=None, device_index=None).to_string() == "/job:w"
    merged = spec.make_merged_spec(DeviceSpec(task=3, device_type="cpu"))
    assert merged.to_string() == "/job:w/task:3/device:CPU:1"
    assert spec.to_string() == "/job:w/device:GPU:1"
    with pytest.raises(TypeError, match="rank"):
        spec.replace(rank=1)
    with pytest.raises(ValueError, match="task"):
        spec.replace(task="x")


def test_a_fixed_specification_is_replaced_and_not_changed():
    spec = DeviceSpecV2(job="w", device_type="MyFunnyDevice", device_index=2)
    assert spec.to_string() == "/job:w/device:MyFunnyDevice:2"
    assert spec.parse_from_string("/cpu:0").to_string() == "/device:CPU:0" and spec.job == "w"
    assert isinstance(spec.make_merged_spec(DeviceSpec(task=1)), DeviceSpecV2)
    assert spec == DeviceSpec.from_string("/job:w/device:MyFunnyDevice:2")
    assert not hasattr(spec, "merge_from")
    with pytest.raises(AttributeError, match=r"job .* use replace\(\)"):
        spec.job = "ps"
