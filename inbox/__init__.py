"""The rules: one function a verb, below every door.

Imports ``models`` and never Flask; knows no status code. The actor comes
first. What cannot be done is raised as an error of ``inbox.errors``.
"""
