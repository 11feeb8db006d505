"""The public algorithms, a file each: its function, its specialization, its policy and its launch."""
