"""Runs a program."""


class Session:
    """Stands here until the native program does."""
