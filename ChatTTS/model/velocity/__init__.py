"""Velocity: the inference engine behind ``chat.load(use_vllm=True)``.

One step reads: the scheduler makes a plan, the worker carries it out, the scheduler learns what
came of it. See ``docs/architecture.md``.
"""
