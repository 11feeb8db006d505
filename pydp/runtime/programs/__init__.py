"""From templates to built kernels, and the files in which they are kept."""
