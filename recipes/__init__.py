"""How things that the package ships are made."""
