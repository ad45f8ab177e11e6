"""Build the data of the English front end from misaki's dictionaries. See README.md."""
