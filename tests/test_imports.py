"""Import rules, and the cost of importing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .support.places import ROOT
from .support.source_imports import Import, imports_of, is_in, modules, parsed_imports, within

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# ---------------------------------------------------------------- allowed imports of modules


@dataclass(frozen=True)
class Rule:
    """Modules that a group of modules never imports, not even inside a function.

    With `indirectly`, they are not imported through other modules of the package either. Rules may
    name modules that do not exist yet.
    """

    why: str
    modules: tuple[str, ...]
    never: tuple[str, ...]
    indirectly: bool = False


VELOCITY = "ChatTTS.model.velocity"
SERVING = "ChatTTS.serving"
PROTOCOLS = f"{SERVING}.protocols"
# A protocol is a folder.
INTERFACES = sorted({n.split(".")[3] for n in modules() if n.startswith(f"{PROTOCOLS}.")})
# Packages that import their names at first use: importing them imports nothing else.
LAZY = ("ChatTTS", "ChatTTS.utils")
# Helpers that know nothing of speech. Other modules in utils are names of the published package.
HELPERS = within(
    "ChatTTS.utils",
    "base16384 folders folder_lock lazy_names lru machine progress process_hooks "
    "fair_lock locks cache_files untrusted ray_environment ray_cluster",
)
RULES = [
    Rule(
        "words, samples and settings are plain data: they run and are tested without torch",
        (
            *within("ChatTTS", "text audio config params errors version coexistence"),
            *within(
                "ChatTTS.utils",
                "folders lazy_names lru machine progress locks cache_files untrusted",
            ),
        ),
        ("torch", "torchaudio", "vocos", "transformers"),
        indirectly=True,
    ),
    Rule(
        "models know neither the pipeline that uses them, nor words, nor audio files",
        ("ChatTTS.model",),
        (
            *within(
                "ChatTTS",
                "core cli text audio serving pipeline voices loading compat",
            ),
            *within("ChatTTS.checkpoints", "assets hashes caches"),
        ),
    ),
    Rule(
        "text and audio are at the bottom",
        within("ChatTTS", "text audio"),
        within("ChatTTS", "model core cli pipeline checkpoints serving"),
    ),
    Rule(
        "helpers know nothing but each other",
        HELPERS,
        within("ChatTTS", "model text audio core cli pipeline checkpoints serving voices config"),
    ),
    Rule(
        "the pipeline is given its model, and does not look for one",
        within("ChatTTS", "pipeline"),
        within("ChatTTS", "core checkpoints longform"),
    ),
    Rule(
        "what long works are made of does not know them",
        within("ChatTTS", "model text audio utils voices config params checkpoints"),
        within("ChatTTS", "longform"),
    ),
    Rule(
        "recordings are found, read and checked without a model",
        within("ChatTTS.voice_learning", "transcripts recordings sound_checks"),
        ("torch", *within("ChatTTS", "core model pipeline voices")),
        indirectly=True,
    ),
    Rule(
        "learning is given its model, and does not look for one",
        within("ChatTTS", "voice_learning"),
        within("ChatTTS", "core voices longform"),
    ),
    Rule(
        "what is learned with does not know the learning",
        within("ChatTTS", "model text audio pipeline checkpoints utils config params"),
        within("ChatTTS", "voice_learning"),
    ),
    Rule(
        "scripts and their readers know no model: they are read and tested without one",
        within(
            "ChatTTS.longform",
            "script marks plain markdown dialogue subtitles epub archive untrusted_xml ssml say_as "
            "json_lines files",
        ),
        ("torch", *within("ChatTTS", "core model pipeline voices")),
        indirectly=True,
    ),
    Rule(
        "the library does not know the command and the servers that use it",
        within(
            "ChatTTS",
            "core pipeline checkpoints voices utils model text audio longform voice_learning",
        ),
        within("ChatTTS", "serving cli"),
    ),
    *(
        Rule(
            f"{name} stands beside the other interfaces of the server, on one service",
            within(PROTOCOLS, name),
            (
                *(f"{PROTOCOLS}.{other}" for other in INTERFACES if other != name),
                f"{SERVING}.server",
            ),
        )
        for name in INTERFACES
    ),
    Rule(
        "what interfaces share knows none of them",
        within(SERVING, "live http encoding"),
        within(SERVING, "protocols server"),
    ),
    Rule(
        "the service knows no interface",
        (*within(SERVING, "requests queue"), *within(f"{SERVING}.speech", "service speech voices")),
        (
            *within(SERVING, "protocols live http server encoding scripts"),
            *within(f"{SERVING}.speech", "config first_use"),
        ),
    ),
    Rule(
        "scripts are requests of the service, whatever interface brings them",
        within(SERVING, "scripts"),
        (
            *within(SERVING, "protocols server replicas"),
            *within(f"{SERVING}.speech", "local_model"),
        ),
    ),
    Rule(
        "the service knows its model by an interface alone",
        (*within(f"{SERVING}.speech", "service speech"), f"{SERVING}.speech.speech_model"),
        ("ChatTTS.core", f"{SERVING}.speech.local_model", f"{SERVING}.replicas"),
    ),
    Rule(
        "replicas know jobs, and no interface or queue",
        within(SERVING, "replicas"),
        (
            *within(SERVING, "protocols live http server queue"),
            *within(f"{SERVING}.speech", "service speech config"),
        ),
    ),
    Rule(
        "what survives a crash does not know what carries it",
        within(f"{SERVING}.replicas", "messages pool failover front worker options routing"),
        ("ray", *within(f"{SERVING}.replicas", "on_ray model_process")),
    ),
    Rule(
        "a request that is spoken knows its service by an interface alone",
        (*within(SERVING, "queue requests observe"), f"{SERVING}.speech.speech"),
        (f"{SERVING}.speech.service",),
    ),
    Rule(
        "scheduling is plain data: it runs and is tested in microseconds",
        within(VELOCITY, "scheduler block_manager sequence_queues sequence"),
        ("torch", "triton", *within(VELOCITY, "executor worker")),
        indirectly=True,
    ),
    Rule(
        "velocity stands on the kernels, which know nothing of it",
        within("ChatTTS.model", "cuda devices kernels llama lora synthesis"),
        (VELOCITY,),
    ),
    Rule(
        "what computes a step knows nothing of plans and engines",
        (
            *within(VELOCITY, "model_runner input_batch loaded_model backends"),
            "ChatTTS.model.kernels.cpu",
        ),
        within(VELOCITY, "scheduler block_manager sequence_queues llm llm_engine async_llm_engine"),
    ),
]


def reached(module: str, rule: Rule, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield chains of imports from `module` to a name that the rule forbids."""
    path = (*path, module)
    for item in imports_of(module):
        if item.typing_only and not is_in(item.name, ("ChatTTS",)):
            continue
        if is_in(item.name, rule.never):
            yield (*path, item.name)
        elif rule.indirectly and item.name in modules().keys() - {*path, *LAZY}:
            yield from reached(item.name, rule, path)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.why)
def test_no_module_breaks_an_import_rule(rule: Rule) -> None:
    broken = [
        " -> ".join(chain)
        for module in modules()
        if is_in(module, rule.modules)
        for chain in reached(module, rule)
    ]
    assert not broken, rule.why


def test_the_rules_see_relative_lazy_and_indirect_imports() -> None:
    tree = ast.parse("def f():\n    from ..config import Config\n    from . import dvae\n")
    assert {(item.name, item.lazy) for item in parsed_imports(tree, "ChatTTS.model")} == {
        ("ChatTTS.config", True),
        ("ChatTTS.model", True),
        ("ChatTTS.model.dvae", True),
    }
    probe = Rule("probe", ("ChatTTS.core",), ("transformers",), indirectly=True)
    assert any(len(chain) > 2 for chain in reached("ChatTTS.core", probe))


KERNELS = ("ChatTTS.model.kernels.cuda",)
# Modules built on the kernels, which are imported only where kernels can run.
ON_KERNELS = (
    *KERNELS,
    f"{VELOCITY}.backends.cuda",
)


def test_triton_is_imported_only_by_kernels_and_these_only_where_they_can_run() -> None:
    users = {m for m in modules() for item in imports_of(m) if is_in(item.name, ("triton",))}
    assert {m for m in users if not is_in(m, KERNELS)} == set()
    eager = {
        (m, item.name)
        for m in modules()
        if not is_in(m, ON_KERNELS)
        for item in imports_of(m)
        if is_in(item.name, ON_KERNELS) and not item.lazy and not item.typing_only
    }
    assert eager == set()


ON_RAY = ("ChatTTS.serving.replicas.on_ray",)
RANKS_ON_RAY = (f"{VELOCITY}.executor.ranks.ray_actors", "ChatTTS.utils.ray_cluster")


def test_ray_is_imported_only_where_it_is_asked_for() -> None:
    users = {
        (m, item.lazy) for m in modules() for item in imports_of(m) if is_in(item.name, ("ray",))
    }
    assert {m for m, _ in users if not is_in(m, ON_RAY + RANKS_ON_RAY)} == set()
    assert {m for m, lazy in users if not lazy and not is_in(m, ON_RAY)} == set()
    eager = {
        m
        for m in modules()
        if not is_in(m, ON_RAY)
        for item in imports_of(m)
        if is_in(item.name, ON_RAY) and not item.lazy
    }
    assert eager == set()


# ---------------------------------------------------------------- what is declared


# Modules whose distribution has another name.
DISTRIBUTIONS = {
    "c2pa": "c2pa-python",
    "google": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
}
# Of newer versions of Python; older ones have another package.
NEWER = {"tomllib"}
# Imported only by the server's tool for developers.
TOOLS = {"grpc_tools"}
# Imported by the plugin, which pytest imports.
BY_PYTEST = {"pytest"}
# Installed by the CUDA builds of torch; a test above checks that only kernels import it.
BY_TORCH = {"triton"}
# Extras for tests.
FOR_TESTS = {"dev", "reference"}


def distribution_of(name: str) -> str:
    """Return the distribution that has an imported module."""
    top = name.partition(".")[0]
    return DISTRIBUTIONS.get(top, distribution(top))


def distribution(requirement: str) -> str:
    """The normalised name in a requirement such as `torch>=2.4; sys_platform == "linux"`."""
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None, requirement
    return found[0].lower().replace("_", "-").replace(".", "-")


def declared() -> tuple[set[str], set[str]]:
    """Return the distributions of a plain install, and those of all extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = {distribution(line) for line in project["dependencies"]}
    extras = {
        distribution(line)
        for name, lines in project["optional-dependencies"].items()
        for line in lines
        if name not in FOR_TESTS
    }
    return core, extras - {project["name"]}  # which the extra `all` names


def third_party() -> Iterator[tuple[str, Import]]:
    for module in modules():
        for item in imports_of(module):
            top = item.name.partition(".")[0]
            if (
                top not in {"ChatTTS", *NEWER, *TOOLS, *BY_PYTEST, *BY_TORCH}
                and top not in sys.stdlib_module_names
            ):
                yield module, item


def test_nothing_undeclared_is_imported() -> None:
    core, extras = declared()
    undeclared = {
        f"{module}: {item.name}"
        for module, item in third_party()
        if distribution_of(item.name) not in core | extras
    }
    assert undeclared == set()


def test_what_an_extra_brings_is_imported_only_where_it_is_used() -> None:
    core, _ = declared()
    eager = {
        f"{module}: {item.name}"
        for module, item in third_party()
        if not item.lazy
        and not item.typing_only
        and not is_in(module, ("ChatTTS.serving",))
        and distribution_of(item.name) not in core
    }
    assert eager == set()


def test_every_declared_dependency_is_used() -> None:
    core, extras = declared()
    used = {distribution_of(item.name) for _, item in third_party()}
    for folder in ("examples", "recipes"):
        for source in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(source.read_text(encoding="utf-8"))
            used |= {distribution_of(item.name) for item in parsed_imports(tree, folder)}
    by_servers = {"websockets", "python-multipart"}  # uvicorn's sockets, FastAPI's forms
    assert (core | extras) - used - by_servers == set()


# ---------------------------------------------------------------- cost of importing


def run(code: str) -> str:
    """Run code in a new interpreter and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_everything_imports_without_triton_and_without_the_extras() -> None:
    core, extras = declared()
    # The server imports its extra at the top; other modules import extras where they use them.
    blocked = {"triton"} | {name.replace("-", "_") for name in extras - core}
    left_out = (*ON_KERNELS, "ChatTTS.serving")
    code = f"""
import importlib.util, pkgutil, sys
blocked = {blocked!r}
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"{{name}} is blocked", name=name)
sys.meta_path.insert(0, Blocker())
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: (
    None if name.partition(".")[0] in blocked else found(name, package)
)
import ChatTTS
for module in pkgutil.walk_packages(ChatTTS.__path__, "ChatTTS."):
    if not module.name.endswith("__main__") and not module.name.startswith({left_out!r}):
        importlib.import_module(module.name)
        print(module.name)
"""
    imported = set(run(code).split())
    expected = {
        name
        for name in modules()
        if name != "ChatTTS" and not name.endswith("__main__") and not is_in(name, left_out)
    }
    assert imported == expected


@pytest.mark.slow
def test_speech_on_velocity_imports_neither_transformers_nor_torchs_compiler() -> None:
    code = """
import sys, ChatTTS
chat = ChatTTS.Chat()
chat.load_or_raise("custom", custom_path="tests/data/model-a", device="cpu", use_vllm=True)
params = chat.InferCodeParams(max_new_token=8, manual_seed=1)
for use_decoder in (True, False):
    chat.infer("hello", skip_refine_text=True, use_decoder=use_decoder, params_infer_code=params)
print(*sys.modules)
"""
    loaded = set(run(code).split())
    assert "ChatTTS.model.velocity.llm_engine" in loaded
    assert (
        loaded & {"transformers", "vector_quantize_pytorch", "einx", "sympy", "torch._dynamo"}
        == set()
    )
