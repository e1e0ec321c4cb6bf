"""The last transfers with each rank."""

from hpcflow.comm import transfers
from hpcflow.comm.transfers import Transfers
from hpcflow.host import tuning


def test_the_last_come_first_and_older_ones_are_forgotten(monkeypatch):
    monkeypatch.setattr(transfers, "clock", lambda: 100.0)
    log = Transfers()
    for i in range(tuning.comm.TRANSFERS_KEPT + 2):
        log.sent(3)((90.0 + i, f"x{i}", 8 * i))
    log.received(1)((99.5, "y:0", 4))
    lines = log.describe([3, 1, 3])
    assert lines == [
        "  received from rank 1: 'y:0' (4 bytes, 0.5 s ago)", "  sent to rank 1: nothing",
        "  received from rank 3: nothing",
        "  sent to rank 3: " + ", ".join(
            f"'x{i}' ({8 * i} bytes, {10 - i}.0 s ago)" for i in (5, 4, 3, 2))]
