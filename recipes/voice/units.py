"""The sizes that all stages share: samples, mel frames and code frames."""

SAMPLE_RATE = 24_000
HOP = 256  # samples of a mel frame
FRAME_SAMPLES = 2 * HOP  # samples of a code frame
