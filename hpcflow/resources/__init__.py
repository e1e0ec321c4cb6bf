"""What stateful ops act on: variables and the containers that hold them by name."""
