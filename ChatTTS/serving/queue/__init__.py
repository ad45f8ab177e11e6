"""Which request may begin: admission, tickets, and turns that are fair between clients."""
