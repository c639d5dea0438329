"""A wrapped model: compiling, calling, its life on a device."""
