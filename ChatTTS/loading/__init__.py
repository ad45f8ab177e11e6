"""Load the parts of a model from a checkpoint's files, all or none."""

from .model import load_model

__all__ = ["load_model"]
