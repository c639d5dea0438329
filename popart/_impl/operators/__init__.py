"""The tables of operators: what a model may use, in which versions, and what becomes of it."""
