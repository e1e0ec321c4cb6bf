"""The updates of optimizers, accumulators of gradients, and word vectors.

May use `ops.common`. Begin reading with `training`.
"""
