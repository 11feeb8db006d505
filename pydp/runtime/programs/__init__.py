"""Templates, built kernels, and their files on disk."""
