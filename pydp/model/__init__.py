"""The cost model (SPEC S5): the time of a specialization, predicted from counts and a device's rates."""
