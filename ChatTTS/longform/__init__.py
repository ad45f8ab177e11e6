"""Long form: scripts from books, dialogues and subtitles, and recordings of them as one work."""
