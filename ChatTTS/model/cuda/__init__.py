"""Common parts of computing on a GPU: recorded launches, failures, and whether kernels run."""
