"""Facts about vector functions: value ranges, trip counts, regions, bounds, races."""
