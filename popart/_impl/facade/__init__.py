"""What `popart._internal.ir` shows: objects over the numbers of a native program. One file for each kind of object;
`ir.py` knows the others, and none of them knows it."""
