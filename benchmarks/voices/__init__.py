"""What speaker vectors that were learned from recordings are worth, with the bundled voice."""
