"""Pack the words of Mandarin that the voices read: free lists, and corrections to them."""
