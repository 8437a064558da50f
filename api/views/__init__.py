"""Views: functions from a call to an answer, a file a noun. No effect outside the database."""
