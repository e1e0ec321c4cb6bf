"""Training steps on the device: they give what the CPU gives, nothing of them is left on the CPU,
and the host waits for the device as seldom as the table says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from gpu_ring.cases import placing
from gpu_ring.workloads import WORKLOADS

import hpcflow as hf
from hpcflow import config

pytestmark = pytest.mark.usefixtures("compiled")

# What the executor runs wherever it is, and what moves values.
_NO_WORK = frozenset({"Const", "NoOp", "_Feed", "_Fetch", "_FetchOp", "_Send", "_Recv",
                      "_SendControl", "_RecvControl"})


class Limits(NamedTuple):
    """The most that a step may take."""

    launches: int
    waits: int


# Where a loop runs on the host's count of it, nothing in it waits; what does is a push of values
# of unknown side, a fetch, and at the end the errors that were found after the last fetch.
LIMITS = {
    "figure1": Limits(11, 1), "alexnet": Limits(33, 1), "vgg": Limits(41, 1),
    "googlenet": Limits(60, 1), "resnet": Limits(63, 1), "lstm": Limits(91, 1),
    "lstm block": Limits(415, 1), "dynamic lstm": Limits(225, 4), "word2vec": Limits(68, 1),
    "seq2seq": Limits(415, 9),
}


@pytest.fixture
def placed() -> Iterator[dict[str, tuple[str, str]]]:
    """Op name -> its type and device, of all that is placed."""
    with placing() as found:
        yield found


def gpu_of(session: Any) -> Any:
    """The session's GPU."""
    return next(d for d in session._engine.task.devices if d.type == "GPU")


def losses(name: str, gpus: int, steps: int = 3) -> list[float]:
    with hf.Graph().as_default():
        hf.set_random_seed(1)
        training = WORKLOADS[name]()
        with hf.Session(config=hf.ConfigProto(device_count={"GPU": gpus})) as session:
            session.run(hf.global_variables_initializer())
            return [float(session.run(*training)[-1]) for _ in range(steps)]


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_training_equals_the_cpu(name: str) -> None:
    np.testing.assert_allclose(losses(name, 1), losses(name, 0), rtol=2e-3)


@pytest.mark.usefixtures("stand_in_only")
@pytest.mark.parametrize("name", list(WORKLOADS))
def test_a_step_stays_on_the_device(name: str, placed: dict[str, tuple[str, str]],
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config.flags, "cuda_graphs", False)
    with hf.Graph().as_default():
        hf.set_random_seed(1)
        training = WORKLOADS[name]()
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            placed.clear()
            for _ in range(2):
                session.run(*training)
            gpu = gpu_of(session)
            launches, waits, moved = gpu.launches, gpu.syncs, (gpu.moved_in, gpu.moved_out)
            session.run(*training)
            left = Counter(t for t, d in placed.values() if "CPU" in d and t not in _NO_WORK)
            found = Limits(gpu.launches - launches, gpu.syncs - waits)
            moves = gpu.moved_in - moved[0], gpu.moved_out - moved[1]
    print(f"{name}: {found}, moved in and out {moves}")
    assert not left, f"left on the CPU: {dict(left)}"
    assert found.launches <= LIMITS[name].launches, f"moved in and out {moves}"
    assert found.waits <= LIMITS[name].waits, f"moved in and out {moves}"
