"""HTTP: one table of routes, schemas, views, errors. Imports ``inbox``, never ``models``."""
