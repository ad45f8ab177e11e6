"""Record the names that scripts may import: `python -m tests.make_names`.

A name is promised, as `module:name`, if one of these is true:

- the published package has it there, or maintainers know it as a part of the engine (`KNOWN`);
- it is in the `__all__` of a package of the library;
- the documents or the examples import it, or have it in a reference.

All other names are internal and may go. A promised name stays importable where it is recorded, also
when its module moves: `ChatTTS/compat/moved.py` then has the path. Recording adds names and removes
none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from importlib import import_module

from ChatTTS.compat.moved import MOVED

from .support.places import DATA, ROOT
from .support.source_imports import modules

RECORD = DATA / "importable_names.txt"
# Those that are not there are left out: the published engine's own parts have other names here.
KNOWN = """
ChatTTS: Chat
ChatTTS.config: Config
ChatTTS.config.config: Config
ChatTTS.core: Chat
ChatTTS.model: DVAE Embed GPT Speaker Tokenizer gen_logits
ChatTTS.model.dvae: ConvNeXtBlock DVAE DVAEDecoder GFSQ MelSpectrogramFeatures
ChatTTS.model.embed: Embed
ChatTTS.model.gpt: GPT
ChatTTS.model.processors: CustomRepetitionPenaltyLogitsProcessorRepeat gen_logits
ChatTTS.model.speaker: Speaker
ChatTTS.model.tokenizer: Tokenizer
ChatTTS.model.velocity: LLM SamplingParams
ChatTTS.model.velocity.async_llm_engine: AsyncLLMEngine RequestTracker
ChatTTS.model.velocity.block_manager: BlockSpaceManager BlockTable
ChatTTS.model.velocity.configs: CacheConfig EngineArgs EngineConfig ModelConfig ParallelConfig
ChatTTS.model.velocity.configs: SchedulerConfig
ChatTTS.model.velocity.executor: ExecutorBase InProcessExecutor
ChatTTS.model.velocity.llama: LlamaModel TorchLlama
ChatTTS.model.velocity.llm: LLM
ChatTTS.model.velocity.llm_engine: LLMEngine
ChatTTS.model.velocity.model_loader: ModelLoader
ChatTTS.model.velocity.model_runner: ModelRunner
ChatTTS.model.velocity.output: Completion CompletionOutput RequestOutput
ChatTTS.model.velocity.sampler: Sampler
ChatTTS.model.velocity.sampling_params: SamplingParams SamplingType
ChatTTS.model.velocity.scheduler: Scheduler
ChatTTS.model.velocity.sequence: Sequence SequenceData SequenceGroup SequenceStatus
ChatTTS.model.velocity.tokenizer_group: TokenizerGroup
ChatTTS.model.velocity.worker: Worker
ChatTTS.norm: Normalizer
ChatTTS.utils: FileLike check_all_assets del_all download_all_assets get_latest_modified_file
ChatTTS.utils: load_safetensors logger select_device
ChatTTS.utils.dl: check_all_assets check_folder check_model download_all_assets sha256
ChatTTS.utils.gpu: select_device
ChatTTS.utils.gpu_utils: select_device
ChatTTS.utils.io: FileLike del_all get_latest_modified_file load_safetensors
ChatTTS.utils.log: Logger logger
"""
# Their packages have lists of names for each other alone.
_PROGRAMS = ("ChatTTS.cli", "ChatTTS.serving")
_DOCUMENTS = ("README*.md", "CONTRIBUTING.md", "docs/**/*.md", "examples/**/*", "deploy/**/*")
_IMPORT = re.compile(r"from (ChatTTS[\w.]*) import (\([^)]*\)|[\w, ]+)")
_PATH = re.compile(r"\bChatTTS(?:\.[A-Za-z_]\w*)+")


def promised() -> set[str]:
    """Return the pairs `module:name` that are promised and can be imported at present."""
    named = _pairs(KNOWN)
    for module, path in modules().items():
        if path.name == "__init__.py" and not module.startswith(_PROGRAMS):
            named |= {f"{module}:{name}" for name in _listed(module)}
    return {pair for pair in named | documented() if can_import(pair)}


def documented() -> set[str]:
    """Return the pairs in the text of documents and examples, whether they exist or not."""
    texts = [
        path.read_text(encoding="utf-8")
        for pattern in _DOCUMENTS
        for path in ROOT.glob(pattern)
        if path.suffix in (".md", ".py", ".ipynb")
    ]
    return {pair for text in texts for pair in (*_imported(text), *_mentioned(text))}


def _imported(text: str) -> Iterator[str]:
    for module, names in _IMPORT.findall(text):
        yield from (f"{module}:{name}" for name in re.findall(r"\w+", names))


def _mentioned(text: str) -> Iterator[str]:
    """Return the pairs of dotted paths such as `ChatTTS.core.Chat.infer`.

    A reference to a whole module (`::: ChatTTS.errors`) mentions all that it defines.
    """
    known = {*modules(), *MOVED}
    for path in _PATH.findall(text):
        if path in known:  # a module
            names = _defined(path) if f"::: {path}\n" in text else ()
            yield from (f"{path}:{name}" for name in names)
            continue
        parts = path.split(".")
        end = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in known)
        yield f"{'.'.join(parts[:end])}:{parts[end]}"


def _listed(module: str) -> list[str]:
    """Return a module's `__all__`; nothing if it has none."""
    for statement in _body(module):
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(statement.value)]
    return []


def _defined(module: str) -> set[str]:
    """Return the public functions and classes that a module defines."""
    kinds = (ast.ClassDef, ast.FunctionDef)
    names = {each.name for each in _body(module) if isinstance(each, kinds)}
    return {name for name in names if not name.startswith("_")}


def _body(module: str) -> list[ast.stmt]:
    path = modules()[MOVED.get(module, module)]
    return ast.parse(path.read_text(encoding="utf-8")).body


def can_import(pair: str) -> bool:
    """Return whether `from module import name` works."""
    return why_not(pair) is None


def why_not(pair: str) -> ImportError | None:
    """Return the error of `from module import name`; `None` if it works."""
    module, _, name = pair.partition(":")
    try:
        found = import_module(module)
        if not hasattr(found, name):
            import_module(f"{module}.{name}")
    except ImportError as error:
        return error
    return None


def recorded() -> set[str]:
    """Return the pairs in the record."""
    return _pairs(RECORD.read_text(encoding="utf-8"))


def _pairs(lines: str) -> set[str]:
    """Return the pairs in lines of a module and its names."""
    parts = (line.partition(": ") for line in lines.splitlines())
    return {f"{module}:{name}" for module, _, names in parts for name in names.split()}


def record(pairs: Iterable[str]) -> None:
    """Write a line for each module, with its names."""
    names: dict[str, list[str]] = {}
    for pair in sorted(pairs):
        module, _, name = pair.partition(":")
        names.setdefault(module, []).append(name)
    lines = (f"{module}: {' '.join(own)}\n" for module, own in names.items())
    RECORD.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    record((recorded() if RECORD.exists() else set()) | promised())
