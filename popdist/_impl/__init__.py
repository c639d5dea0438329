"""Private parts: what the launcher tells an instance, how instances meet, and the launcher itself."""
