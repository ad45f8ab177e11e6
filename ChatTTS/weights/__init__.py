"""Files of weights: opened, checked, and read into modules. The models stand on it."""
