"""What can go wrong with the store itself, whatever the database."""


class StoreError(Exception):
    """The store could not do what was asked; nothing was written."""


class Unavailable(StoreError):
    """The database is away, frozen or full: the connection was given up."""


class Frozen(Unavailable):
    """The database did not answer within the deadline: asking again at once would not help."""


class Contended(StoreError):
    """Another transaction stood in the way; the same work may succeed when run again."""


class Unusable(StoreError):
    """The database cannot be used at all: a bad address, a newer schema, no permission."""
