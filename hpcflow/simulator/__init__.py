"""The simulator: how long a step would take on a cluster that is described, not there.

``cluster`` describes ranks, devices and links; ``program`` turns a compiled step into work and
messages; ``engine`` plays them through; ``placement`` chooses devices by the same costs.
"""
