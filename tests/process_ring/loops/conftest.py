"""Loops that are compiled at once, and run over threads."""

import pytest
from thresholds import forget_loops, lower

from hpcflow.loops import compiling


@pytest.fixture
def eager_over_threads(monkeypatch, pool):
    """Loops from the second call on, over small arrays too, whose parts three threads compute."""
    lower(monkeypatch, "COMPILE_WORTH_SECONDS", "ARRAY_LOOP_LARGE", "PARALLEL_LARGE_BYTES")
    forget_loops(monkeypatch)


@pytest.fixture
def by_loop():
    """What `run(compute)` returns once there is a loop; it must not compute otherwise then."""
    def found_by_loop(run):
        if not compiling.enabled():
            pytest.skip("there is no compiler")
        run(lambda: None)
        compiling.wait()
        found = run(lambda: None)
        assert found is not None
        return found

    return found_by_loop
