"""The program of a session as programs read it: graphs of ops with PopART's types, tensor ids and attributes, all texts."""
