"""The recipe that makes the bundled voice from scratch: data, training, export, evaluation."""
