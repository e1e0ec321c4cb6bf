"""Running steps: devices, the executor, the event loop, sessions, servers."""
