"""Sessions: fetches, feeds, partial runs, tensors that stay.

Begin reading with `session`.
"""
