"""Images: resizing, colours, boxes, files.

May use `ops.common`. Begin reading with `image_resizing`.
"""
