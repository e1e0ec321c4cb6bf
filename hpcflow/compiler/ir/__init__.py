"""The form that passes change (StepGraph), and questions about it: frames, sizes, effects.

May use the graph and the registry of kernels. Begin reading with `step_graph`.
"""
