"""Arguments that parsing, truncated normal numbers and files got in later releases of 1.x."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.lib.io import file_io
from hpcflow.python.ops import numerics, random_ops


def run(value, feeds=None):
    with hf.Session() as session:
        return session.run(value, feeds)


def test_decode_raw_to_a_fixed_length_pads_and_cuts():
    words = hf.constant([b"ab", b"abcdef", b""])
    got = run(hf.decode_raw(words, hf.uint8, fixed_length=4))
    np.testing.assert_array_equal(got, [[97, 98, 0, 0], [97, 98, 99, 100], [0, 0, 0, 0]])
    with pytest.raises(hf.errors.InvalidArgumentError):
        run(hf.decode_raw(words, hf.uint8))


def test_parameters_of_truncated_normal_numbers_are_converted_and_hold():
    drawn = random_ops.parameterized_truncated_normal(
        [3, 1000], means=[0, 10, -5], stddevs=2, minvals=[-1, 10, -6], maxvals=[1, 11, -5], seed=7)
    got = run(drawn)
    assert got.dtype == np.float32
    for row, low, high in zip(got, [-1, 10, -6], [1, 11, -5]):
        assert low <= row.min() and row.max() <= high
        assert row.max() - row.min() > 0.9


def test_check_numerics_of_a_graph_with_conditionals_is_refused():
    with hf.Graph().as_default():
        hf.cond(hf.placeholder(hf.bool, []), lambda: hf.constant(1.0), lambda: hf.constant(2.0))
        with pytest.raises(ValueError, match=r"control flow operations"):
            numerics.add_check_numerics_ops()


def test_files_made_compared_and_replaced(tmp_path):
    one, two, three = (str(tmp_path / name) for name in ("one", "two", "three"))
    with file_io.FileIO(one, "r+") as both:  # makes the file
        both.write("text")
        both.flush()
        assert both.read(9) == "text"
    file_io.write_string_to_file(two, "text")
    file_io.write_string_to_file(three, "Text")
    assert file_io.filecmp(one, two) and not file_io.filecmp(one, three)
    assert file_io.file_crc32(one, block_size=3) == file_io.file_crc32(two) == hex(0x3B8BA7C7)
    with pytest.raises(hf.errors.AlreadyExistsError):
        file_io.atomic_write_string_to_file(one, "new", overwrite=False)
    assert file_io.read_file_to_string(one) == "text" and len(list(tmp_path.iterdir())) == 3
    file_io.atomic_write_string_to_file(one, "new")
    assert file_io.read_file_to_string(one) == "new"
