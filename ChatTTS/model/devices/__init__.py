"""Devices, the abilities of their processors, and the dtype in which a model computes."""
