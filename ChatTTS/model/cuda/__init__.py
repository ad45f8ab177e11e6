"""What every computation on a GPU needs: recorded launches, failures, and whether kernels run."""
