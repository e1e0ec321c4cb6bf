"""What became of each test, as lines of JSON that are there even when the process dies."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from limits import PROCESSOR_SECONDS

Record = dict[str, str | float]


class Recorder:
    """Appends a line when a test starts and one when it ends, flushed at once."""

    def __init__(self, path: Path) -> None:
        self.stream = path.open("a", encoding="utf-8")
        self.ends: dict[str, Record] = defaultdict(lambda: {"outcome": "passed", "seconds": 0.0})

    def write(self, test: str, record: Record) -> None:
        """Append the line of one test."""
        self.stream.write(json.dumps({"test": test, **record}) + "\n")
        self.stream.flush()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Say that the test runs."""
        self.write(nodeid, {"outcome": "started"})

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather what the phases of a test say; a failure is written at once."""
        end = self.ends[report.nodeid]
        end["seconds"] = float(end["seconds"]) + report.duration
        if report.when == "teardown":
            end["processor"] = dict(report.user_properties).get(PROCESSOR_SECONDS, 0.0)
        if report.failed:
            end["outcome"] = "failed"
            self.write(report.nodeid, end)
        elif report.skipped and end["outcome"] == "passed":
            end["outcome"] = "skipped"

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Say how the test ended."""
        self.write(nodeid, self.ends.pop(nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Say that a file could not be read."""
        if report.failed:
            self.write(report.nodeid, {"outcome": "failed"})


def read_records(directory: Path) -> dict[str, dict[str, Record]]:
    """By rank (``rank0``), each test's last line; that of a failure stays."""
    found = {}
    for path in sorted(directory.glob("rank*.jsonl")):
        tests: dict[str, Record] = {}
        for line in path.read_text().splitlines():
            record = json.loads(line)
            test = record.pop("test")
            if tests.get(test, {}).get("outcome") != "failed":
                tests[test] = record
        found[path.stem] = tests
    return found
