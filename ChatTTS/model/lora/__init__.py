"""LoRA adapters: their names, their files, and their matrices."""
