"""Executables and models on disk, and what may be read from them."""
