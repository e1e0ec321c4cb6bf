"""Names and op types of other versions of the API, made of the other rooms' ops.

Begin reading with `other_versions`.
"""
