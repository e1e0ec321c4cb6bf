"""What tests of programs ask about the event files of a directory."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hpcflow.train.training_util import summary_iterator

if TYPE_CHECKING:
    import unittest

    from google.protobuf.message import Message


def latest_event_file(base_dir: str) -> str | None:
    """The path of the event file of a directory that is the last by its name; None for none."""
    return max(glob.glob(os.path.join(base_dir, "events.*")), default=None)


def latest_events(base_dir: str) -> list[Any]:
    """The events of the last event file; none if there is no file."""
    path = latest_event_file(base_dir)
    return [] if path is None else list(summary_iterator(path))


def latest_summaries(base_dir: str) -> list[Any]:
    """Those of :func:`latest_events` that are summaries."""
    return [event for event in latest_events(base_dir) if event.HasField("summary")]


def simple_values_from_events(events: Iterable[Any], tags: Iterable[str]) -> dict[str, float]:
    """The numbers that summaries of these tags have; the last one where there are several."""
    return dict(_simple_values(events, set(tags)))


def _simple_values(events: Iterable[Any], tags: set[str]) -> Iterator[tuple[str, float]]:
    for event in events:
        for value in event.summary.value:
            if value.tag in tags and value.HasField("simple_value"):
                yield value.tag, value.simple_value


def to_summary_proto(summary_str: bytes) -> Any:
    """The ``Summary`` of bytes."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary.FromString(summary_str)


def assert_summary(expected_tags: Iterable[str], expected_simple_values: dict[str, float],
                   summary_proto: Message, test_case: unittest.TestCase) -> None:
    """Fail `test_case` unless a summary has exactly these tags, and these numbers."""
    tags = [value.tag for value in summary_proto.value]  # type: ignore[attr-defined]
    test_case.assertCountEqual(expected_tags, tags)
    values = {value.tag: value.simple_value
              for value in summary_proto.value}  # type: ignore[attr-defined]
    for tag, number in expected_simple_values.items():
        test_case.assertEqual(number, values[tag])
