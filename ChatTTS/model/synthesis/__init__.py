"""From hidden states or codes to samples: one list of layers, and what runs it on each device."""
