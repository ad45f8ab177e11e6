"""The reference, and the fallback where no kernel can run."""
