"""Load servers for hours, disturb them, and look for what grows, differs or stays open."""
