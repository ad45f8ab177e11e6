"""The Model Context Protocol: tools by which programs with language models speak."""

from typing import TYPE_CHECKING

from ....utils.lazy_names import lazy_names

if TYPE_CHECKING:
    from .http_app import guarded_app
    from .loading import Loading
    from .server import make_server

__all__ = ["Loading", "guarded_app", "make_server"]

# The app over HTTP needs the engine's modules, for which clients of standard input do not wait.
__getattr__, __dir__ = lazy_names(
    __name__, {"http_app": ["guarded_app"], "loading": ["Loading"], "server": ["make_server"]}
)
