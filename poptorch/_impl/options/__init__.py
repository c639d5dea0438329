"""Parts of `poptorch.Options`, and where their values come from."""
