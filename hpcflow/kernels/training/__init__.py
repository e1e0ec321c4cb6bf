"""Kernels of the optimizers' updates, dense and by rows.

May use `kernels.io` and `kernels.random`. Begin reading with `update_rules`, then `block_rules`.
"""
