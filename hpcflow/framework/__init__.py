"""What the 1.x API keeps under ``python.framework``: functions."""
