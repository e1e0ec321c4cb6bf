"""Ops of control flow and of the step: conditionals, loops, functions, TensorArrays, checks.

May use `ops.common`. Begin reading with `control_flow_context`, then `cond` and `while_loop`.
"""
