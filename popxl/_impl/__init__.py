"""What popxl is made of. No name of this package is public."""
