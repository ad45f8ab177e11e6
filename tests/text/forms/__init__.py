"""Written forms of values, with their readings by construction: nothing here asks our reader."""
