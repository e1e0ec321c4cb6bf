"""The building blocks of layers and models of ``hpcflow.keras``."""
