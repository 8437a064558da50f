"""The store: the only package that knows SQL.

One table, ``messages``, on SQLite and PostgreSQL alike. Functions here answer
with plain rows and raise the errors of ``models.errors``; they hold no rules
of the service and import nothing of it.
"""
