"""Executors run the plans of the scheduler, on a worker in this process or on several ranks."""

from .base import ExecutorBase
from .in_process import InProcessExecutor
from .make_executor import make_executor

__all__ = ["ExecutorBase", "InProcessExecutor", "make_executor"]
