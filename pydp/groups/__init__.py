"""Inside a work-group: how wide barriers have to be, and what each is run by."""
