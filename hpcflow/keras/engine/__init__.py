"""What layers and models of ``hpcflow.keras`` are made of."""
