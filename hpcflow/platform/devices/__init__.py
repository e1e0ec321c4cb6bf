"""The functions of ``hf.config``: devices of the machine, and options of sessions without a
config of their own."""
