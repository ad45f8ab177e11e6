"""The bundled voice from nothing: data, training, export, evaluation."""
