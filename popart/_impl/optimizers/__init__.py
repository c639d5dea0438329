"""Optimizers: what a program says about the update of weights, as values the compiler and the host read."""
