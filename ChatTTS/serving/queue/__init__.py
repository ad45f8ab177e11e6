"""Order of requests: admission, tickets, and turns that are fair between clients."""
