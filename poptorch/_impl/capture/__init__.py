"""Recording forward: symbolic tensors, what is replaced in torch meanwhile, annotations."""
