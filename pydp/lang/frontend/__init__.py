"""Translation of Python syntax to the typed intermediate form, one module per kind of construct."""
