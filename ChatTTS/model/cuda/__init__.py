"""Common parts of computing on a GPU: captured launches, failures, and whether kernels run."""
