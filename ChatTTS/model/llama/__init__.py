"""What every Llama here shares: sizes, weights, rotary tables, and the shards of ranks."""
