"""The addresses of arrays."""

import numpy as np
import pytest

from hpcflow.host.memory import address_of


@pytest.mark.parametrize("array", [
    np.zeros((3, 4), np.float32), np.zeros((5, 6))[2:, 1:], np.zeros((4, 2)).T, np.zeros(7)[::-1],
    np.zeros(()), np.zeros((0, 3)), np.zeros(3, bool), np.broadcast_to(np.zeros(3), (2, 3)),
    np.zeros(4).view(np.recarray)])
def test_the_address_is_that_of_the_first_element(array):
    assert address_of(array) == array.ctypes.data


def test_memory_of_others():
    data = np.frombuffer(bytes(range(16)), np.uint8)
    assert address_of(data[3:]) == data.ctypes.data + 3
