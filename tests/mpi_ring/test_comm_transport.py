"""The MPI transport: every case of `comm_cases` on however many ranks there are."""

from __future__ import annotations

import pytest
from comm_cases import CASES, Node, small_chunks

from hpcflow.comm.mpi_transport import MpiTransport
from hpcflow.comm.world import private_comms


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    with small_chunks():
        comms = private_comms()
        transport = MpiTransport(comms)
    CASES[case](Node(transport))
    transport.close()


def test_description() -> None:
    transport = MpiTransport(private_comms(), tag_limit=1000)
    assert transport.tag_limit == 1000
    assert f"rank {transport.rank} of {transport.size}" in transport.description
    transport.close()
