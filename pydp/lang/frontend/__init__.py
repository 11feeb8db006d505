"""From Python syntax to the typed intermediate form, one module for each kind of construct."""
