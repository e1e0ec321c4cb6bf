"""Environment flags."""

from __future__ import annotations

import pytest

from hpcflow.config import FLAGS, Flags


def test_defaults():
    flags = Flags({})
    assert flags.compile is True and flags.print_source is False
    assert flags.connect_timeout == 60.0 and flags.stall_seconds == 60.0
    assert flags.chunk_bytes == 256 << 20 and flags.onednn == ""


def test_values_are_read_and_read_again():
    flags = Flags({"HPCFLOW_COMPILE": "0", "HPCFLOW_CHUNK_BYTES": "8"})
    assert flags.compile is False and flags.chunk_bytes == 8
    flags.reload({"HPCFLOW_COMPILE": " yes "})
    assert flags.compile is True and flags.chunk_bytes == 256 << 20


def test_the_environment_is_the_default_source(monkeypatch):
    monkeypatch.setenv("HPCFLOW_STALL_SECONDS", "1.5")
    assert Flags().stall_seconds == 1.5


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("HPCFLOW_COMPILE", "maybe", "1 or 0"),
        ("HPCFLOW_STALL_SECONDS", "-1", ">= 0"),
        ("HPCFLOW_CHUNK_BYTES", "1.5", "1.5"),
    ],
)
def test_bad_values_name_the_variable_and_change_nothing(name, text, expected):
    flags = Flags({"HPCFLOW_CONNECT_TIMEOUT": "3"})
    with pytest.raises(ValueError, match=f"{name}='{text}'.*{expected}"):
        flags.reload({name: text, "HPCFLOW_CONNECT_TIMEOUT": "4"})
    assert flags.connect_timeout == 3


def test_listing_shows_every_flag():
    rows = {row.name: row for row in Flags({"HPCFLOW_CHUNK_BYTES": "3"}).listing()}
    assert set(rows) == {flag.name for flag in FLAGS}
    assert rows["HPCFLOW_CHUNK_BYTES"].value == 3 and rows["HPCFLOW_CHUNK_BYTES"].is_set
    assert not rows["HPCFLOW_COMPILE"].is_set and all(row.doc for row in rows.values())
    assert all(name.startswith("HPCFLOW_") for name in rows)
