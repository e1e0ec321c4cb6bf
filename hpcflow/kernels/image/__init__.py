"""Kernels of images: resizing, colours, boxes, files.

May use `kernels.random`. Begin reading with `image_resizing`.
"""
