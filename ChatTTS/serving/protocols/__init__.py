"""The interfaces, a folder for each; none knows another."""
