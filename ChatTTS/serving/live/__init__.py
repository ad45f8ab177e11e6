"""Text that is still being written: what interfaces for such text share."""
