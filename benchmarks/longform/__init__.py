"""Long works from end to end: a book that is killed and goes on, a dialogue, subtitles and SSML."""
