"""Recipes that make the data that the package ships."""
