"""Private code of popart."""
