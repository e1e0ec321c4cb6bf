"""Which tests of the mpi ring run on how many ranks.

Everything runs on 2. What a cluster of one process does, the loopback tests of the process ring
cover, so 1 rank has only what shows that the same programs run without others. Collectives,
checkpoints and loops, which do other things among 4 ranks, run on these too. On any other number
of ranks everything runs.
"""

from __future__ import annotations

import pytest
from rank import launched_world_size

SIZES = (1, 2, 4)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "ranks(N, ...): runs on these of 1, 2 and 4 ranks too; on 2 runs everything")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    size = launched_world_size()
    if size == 2 or size not in SIZES:
        return
    left = [item for item in items
            if not any(size in mark.args for mark in item.iter_markers("ranks"))]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in set(left)]
