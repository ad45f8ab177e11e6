"""Velocity: the engine that ``chat.load`` takes where it is faster, or for ``use_vllm=True``.

One step reads: the scheduler makes a plan, the worker carries it out, the scheduler learns what
came of it. See ``docs/architecture.md``.
"""
