"""Recipes that make the data and the wheels that the package ships, and list its licences."""
