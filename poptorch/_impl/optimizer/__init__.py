"""The optimizer of a training wrapper: what is read of it, and its state."""
