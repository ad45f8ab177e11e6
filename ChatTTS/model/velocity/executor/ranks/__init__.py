"""One engine over several processes: tensor and pipeline parallelism with unchanged bits."""
