"""Fine-tune a checkpoint on recordings of a voice; ``python -m recipes.fine_tune``."""
