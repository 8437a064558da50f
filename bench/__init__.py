"""The benchmark: `make bench`. It talks to servers from outside and imports nothing of the service."""
