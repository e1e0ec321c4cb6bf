"""Input and output: queues, readers, data sets, tables, parsing, files, summaries.

May use the rooms of flow, random and sparse. Begin reading with `queues`.
"""
