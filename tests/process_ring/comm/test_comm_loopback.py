"""The loopback transport: every case of `comm_cases`, each rank on a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from comm_cases import CASES, Node, small_chunks

from hpcflow import errors
from hpcflow.comm.loopback import LoopbackNetwork


def run_ranks(network: LoopbackNetwork, body: Callable[[Node], None]) -> None:
    """Call `body` for every endpoint at the same time; raise what one of them raised."""
    failures: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            body(Node(network.endpoints[rank]))
        except BaseException as error:  # noqa: BLE001  shown by the main thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(r,), daemon=True) for r in range(network.size)]
    for thread in threads:
        thread.start()
    # When one fails, the others may wait for it for ever.
    while not failures and any(thread.is_alive() for thread in threads):
        time.sleep(0.001)
    if failures:
        raise failures[0]


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("case", CASES)
def test_case(case: str, size: int) -> None:
    with small_chunks():
        network = LoopbackNetwork(size)
    run_ranks(network, CASES[case])
    network.close()


def test_one_thread_can_serve_all_endpoints() -> None:
    network = LoopbackNetwork(3)
    passed: list[int] = []

    def pass_on(endpoint: int, payload: bytes) -> None:
        passed.append(endpoint)
        if len(passed) < 30:
            network.endpoints[endpoint].send_message((endpoint + 1) % 3, payload)

    for endpoint in network.endpoints:
        endpoint.set_handler(lambda source, payload, rank=endpoint.rank: pass_on(rank, payload))
    network.endpoints[0].send_message(1, b"baton")
    while sum(endpoint.poll() for endpoint in network.endpoints):
        pass
    assert passed == [(1 + number) % 3 for number in range(30)]


def test_endpoints_can_be_added() -> None:
    network = LoopbackNetwork(1)
    first = network.endpoints[0]
    with pytest.raises(errors.InvalidArgumentError, match="rank 1 does not exist"):
        first.send_message(1, b"")
    second = network.add()
    got: list[tuple[int, bytes]] = []
    second.set_handler(lambda source, payload: got.append((source, payload)))
    first.send_message(1, b"hello")
    second.poll()
    assert (second.rank, first.size, second.size, got) == (1, 2, 2, [(0, b"hello")])


def test_transfer_of_a_wrong_number_of_chunks() -> None:
    with small_chunks(1000):
        network = LoopbackNetwork(2)
    network.endpoints[0].post_send(np.zeros(2000, np.uint8), 1, 0)
    network.endpoints[1].post_recv(np.zeros(3000, np.uint8), 0, 0, print)
    with pytest.raises(errors.InternalError, match="message of 2000 bytes: expected 3000, or"):
        network.endpoints[1].poll()


def test_a_low_tag_limit() -> None:
    endpoint = LoopbackNetwork(1, tag_limit=10).endpoints[0]
    endpoint.post_send(b"", 0, 9)
    with pytest.raises(errors.InvalidArgumentError, match="tag 10 is out of range"):
        endpoint.post_send(b"", 0, 10)


def test_abort_raises() -> None:
    endpoint = LoopbackNetwork(2).endpoints[1]
    with pytest.raises(errors.AbortedError, match=r"rank 1: no luck \(status 3\)"):
        endpoint.abort(3, "no luck")


def test_networks_have_ranks() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="expected at least 1"):
        LoopbackNetwork(0)
