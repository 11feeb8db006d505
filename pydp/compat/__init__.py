"""Drop-in replacements of other libraries."""
