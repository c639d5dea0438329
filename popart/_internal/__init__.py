"""Parts of popart that programs reach although they are not public."""
