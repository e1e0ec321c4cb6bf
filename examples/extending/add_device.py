"""A device type of one's own, with memory of its own: nodes can be placed there at once.

The device here is a second piece of host memory. What it must have: an array module ``xp`` that
works on its arrays, and how values move in and out. Kernels that are written over ``node.xp`` then
run on it, and edges between devices copy.
"""

import types

import numpy as np

import hpcflow as hf
from hpcflow.extending import Device, register_device_type, unregister_device_type


class Boxed(np.ndarray):
    """An array in the memory of the device."""


def _module():
    """NumPy, where the functions that make arrays make arrays of the device."""
    module = types.SimpleNamespace(**{n: getattr(np, n) for n in dir(np) if n[0] != "_"})
    module.ndarray = Boxed
    module.asarray = lambda x, dtype=None: np.asarray(x, dtype).view(Boxed)
    return module


class BoxDevice(Device):
    """The device ``/device:BOX:0``."""

    type = "BOX"
    has_own_memory = True
    priority = -10  # the CPU has 0: this device is used only where a program asks for it

    def __init__(self, name, index, resources):
        super().__init__(name, index, resources)
        self.xp = _module()
        self.copies = 0

    def to_device(self, value):
        # Strings stay on the host.
        if isinstance(value, (Boxed, bytes)) or np.asarray(value).dtype.kind == "O":
            return value
        self.copies += 1
        return np.array(value).view(Boxed)

    def to_host(self, value):
        if not isinstance(value, Boxed):
            return value
        self.copies += 1
        return np.array(value)[()]

    def is_device_value(self, value):
        return isinstance(value, Boxed)

    def synchronize(self):
        """Nothing is under way: the work is done when a function returns."""


def main():
    register_device_type(BoxDevice, lambda: 1)
    try:
        x = hf.placeholder(hf.float32, [2, 2])
        with hf.device("/device:BOX:0"):
            y = hf.matmul(x, x) + 1.0
        with hf.Session() as session:
            print([d.name for d in session.list_devices()])
            print(session.run(y, {x: [[1.0, 2.0], [3.0, 4.0]]}))
    finally:
        unregister_device_type("BOX")


if __name__ == "__main__":
    main()
