"""What the packages share that needs no native module. Users import the packages that stand on it."""
