"""Common parts of every Llama here: sizes, weights, rotary tables, and the shards of ranks."""
