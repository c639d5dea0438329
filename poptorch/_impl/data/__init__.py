"""Loading data: whole batches, in this process or another."""
