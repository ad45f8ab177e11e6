"""Which word each frame speaks, and what that says about times and faults."""
