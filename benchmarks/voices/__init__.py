"""The worth of speaker vectors that were learned from recordings, with the bundled voice."""
