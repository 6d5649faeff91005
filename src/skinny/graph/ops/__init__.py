"""The entries of the registry, a file per family of operations."""
