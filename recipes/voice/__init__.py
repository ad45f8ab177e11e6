"""The recipe of the bundled voice: a teacher's speech, and the networks that learn from it."""
