"""Op types without a comparison, and why."""

EXEMPT = {}
