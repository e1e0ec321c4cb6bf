"""Saving through MPI-IO. Runs on any number of ranks, alone included."""

from __future__ import annotations

import os
import tempfile

import numpy as np
import pytest

from hpcflow import storage
from hpcflow.errors import InvalidArgumentError, NotFoundError

if not storage.parallel_hdf5_available():
    pytest.skip("h5py was built without MPI (serial HDF5)", allow_module_level=True)

from mpi4py import MPI

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
ENTRIES = [
    ("rows", "float32", (2 * SIZE, 3)),
    ("columns", "complex64", (4, SIZE)),
    ("names", "string", (SIZE,)),
    ("half", "bfloat16", ()),
    ("empty", "int32", (0, 2)),
    ("flags", "bool", (5,)),
]


def pieces_of(rank):
    spec = storage.format_slice_spec
    rows = np.full((2, 3), rank, np.float32)
    column = np.full((4, 1), rank - 1j, np.complex64)
    pieces = [
        ("rows", spec((2 * SIZE, 3), (2 * rank, 0), (2, 3)), rows),
        ("columns", spec((4, SIZE), (0, rank), (4, 1)), column),
        ("names", spec((SIZE,), (rank,), (1,)), np.array([b"%d" % rank], object)),
    ]
    if rank == 0:
        from ml_dtypes import bfloat16

        pieces.append(("half", None, bfloat16(1.5)))
        pieces.append(("empty", None, np.empty((0, 2), np.int32)))
        pieces.append(("flags", None, np.arange(5) < 2))
    return pieces


def check(path):
    with storage.Reader(path) as reader:
        rows = np.repeat(np.arange(SIZE, dtype=np.float32), 2)
        assert np.array_equal(reader.read("rows"), np.tile(rows[:, None], 3))
        columns = np.arange(SIZE) - 1j
        assert np.array_equal(reader.read("columns"), np.tile(columns, (4, 1)))
        assert reader.read("names").tolist() == [b"%d" % r for r in range(SIZE)]
        assert float(reader.read("half")) == 1.5 and reader.read("empty").shape == (0, 2)
        assert reader.read("flags").tolist() == [True, True, False, False, False]


@pytest.fixture
def folder():
    """A directory that all ranks see."""
    with tempfile.TemporaryDirectory() as mine:
        yield COMM.bcast(mine)
        COMM.barrier()


def shared_layout(folder):
    made = None
    if RANK == 0:
        made = storage.create(os.path.join(folder, "m.h5"), ENTRIES).to_bytes()
    return COMM.bcast(made)


def test_all_ranks_write_one_file(folder):
    layout = shared_layout(folder)
    records = COMM.gather(storage.write_collective(layout, pieces_of(RANK), COMM))
    if RANK == 0:
        check(storage.commit(layout, records))


def test_records_of_both_ways_fit_together(folder):
    layout = shared_layout(folder)
    pieces = pieces_of(RANK)
    first = storage.write_collective(layout, pieces[:1], COMM)
    second = storage.write(layout, pieces[1:])
    records = COMM.gather([first, second])
    if RANK == 0:
        check(storage.commit(layout, [record for pair in records for record in pair]))


def test_ranks_without_pieces_take_part(folder):
    layout = shared_layout(folder)
    pieces = [piece for rank in range(SIZE) for piece in pieces_of(rank)] if RANK == 0 else []
    record = storage.write_collective(layout, pieces, COMM)
    if RANK == 0:
        check(storage.commit(layout, [record]))


@pytest.mark.parametrize("failing_rank", sorted({0, SIZE - 1}))
def test_an_error_of_one_rank_holds_nobody_up(failing_rank, folder, monkeypatch):
    layout = shared_layout(folder)
    pieces = pieces_of(RANK)
    bad = [("unknown", None, np.float32(1))]
    if failing_rank == RANK:
        with pytest.raises(NotFoundError, match="'unknown'"):
            storage.write_collective(layout, pieces + bad, COMM)
        with pytest.raises(InvalidArgumentError, match="'names'"):
            wrong = np.array([None], object)
            storage.write_collective(layout, [(*pieces[2][:2], wrong)], COMM)
    else:
        storage.write_collective(layout, pieces, COMM)
        storage.write_collective(layout, pieces, COMM)
    COMM.barrier()
    if RANK == 0:
        storage.abandon(layout)
        assert os.listdir(folder) == []
