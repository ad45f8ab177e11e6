"""The model in one process beside the server's, so that each has an interpreter lock of its own.

``process.py`` starts the process and ends it, ``supervisor.py`` starts it again, ``program.py`` is
what runs in it, and ``pool.py`` sends it jobs. They exchange the messages of ``wire.py``.
"""
