"""The benchmark, `make bench`: it measures from outside and imports nothing of the service."""
