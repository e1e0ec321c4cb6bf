"""The measured programs; each file also runs alone, in a Python without hpcflow."""
