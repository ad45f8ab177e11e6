"""What operators see: metrics, logs, and how late the event loop is."""
