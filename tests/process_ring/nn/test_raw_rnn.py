"""raw_rnn: what loop_fn emits."""

from __future__ import annotations

import numpy as np

import hpcflow as hf


def test_emitted_shapes_that_only_a_step_knows():
    with hf.Graph().as_default(), hf.Session() as session:
        width = hf.placeholder(hf.int32, [])
        cell = hf.nn.rnn_cell.BasicRNNCell(3)

        def loop(time, output, state, loop_state):
            if output is None:
                emitted = hf.zeros([2], hf.int32), hf.zeros([width], hf.int64)
                state = cell.zero_state(4, hf.float32)
            else:
                emitted = hf.ones([4, 2], hf.int32), hf.ones([4, width], hf.int64)
            finished = time >= hf.constant([3, 1, 3, 2])
            return finished, hf.ones([4, 2]), state, emitted, None

        (small, wide), _, _ = hf.nn.raw_rnn(cell, loop)
        results = small.stack(), wide.stack()
        assert wide.stack().shape.as_list() == [None, 4, None]
        session.run(hf.global_variables_initializer())
        going = np.arange(3)[:, None] < [3, 1, 3, 2]
        small, wide = session.run(results, {width: 5})
        np.testing.assert_array_equal(small, np.repeat(going[..., None], 2, 2))
        np.testing.assert_array_equal(wide, np.repeat(going[..., None], 5, 2))
