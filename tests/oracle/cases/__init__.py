"""Cases of op types, by families; importing `families` registers all."""
