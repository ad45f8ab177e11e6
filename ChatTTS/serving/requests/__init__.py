"""What is asked for: requests, their texts, and the model that speaks them, as an interface."""
