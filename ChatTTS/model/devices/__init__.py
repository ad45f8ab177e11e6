"""Which devices there are, what their processors can do, and in which dtype a model computes."""
