"""Speech that fits its time: predict its length, draw attempts, keep the nearest, shape it.

``fitted_pass.py`` is the flow. Its steps: ``goals.py`` chooses the paces to draw and the attempts
to keep, ``takes.py`` draws attempts and decodes them, ``take_pauses.py`` finds the silence in them,
``shaping.py`` makes the exact length. ``learning.py`` learns the lengths that a checkpoint speaks.
"""
