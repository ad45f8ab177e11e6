"""``chattts voice learn``: learn a speaker from recordings, and keep what shows how it went."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..voices import SavedVoice, VoiceLibrary, learn
from .console import Console, UsageError, table
from .model import choose_model, load_chat
from .options import Commands, add_command, add_engine_options, add_force_option

if TYPE_CHECKING:
    from ..core import Chat
    from ..voice_learning.learning import LearnedVoice

_MOST_ROWS = 200  # of a table on a terminal
_DETAILS = """\
Learn a speaker from recordings of one person, and save it by name. Ten seconds are few, a minute is
enough. Each recording needs its transcript: NAME.txt beside NAME.wav, or LJSpeech's metadata.csv.

  chattts voice learn recordings/ --name anna
  chattts voice learn recordings/ --name anna --seconds 60 --from-sample
  chattts voice learn me.wav --text "What I say in it, word for word." --name me
  chattts say Hello --voice anna

A table says which recordings were left out and why. The folder anna-learned gets a sentence before
and after (before.wav, after.wav), a picture of how likely the recordings became (learning.png, with
the extra `plot`), and all figures (report.json). It says how long it will take before it starts.
"""


def add_to(actions: Commands) -> None:
    """Add the command to those of ``chattts voice``."""
    parser = add_command(actions, "learn", run, "learn a speaker from recordings", _DETAILS)
    parser.add_argument("source", metavar="RECORDINGS", help="a folder, or one sound file")
    parser.add_argument("--name", required=True, help="save it under this name")
    parser.add_argument("--text", metavar="TEXT", help="the exact words of one sound file")
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="take so much speech; all of it by default"
    )
    parser.add_argument(
        "--from-sample",
        action="store_true",
        help="start at the nearest known voice (the model's and yours), not at random speakers",
    )
    parser.add_argument(
        "--one-speaker",
        action="store_true",
        help="do not look for other people in the recordings: it is one person",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="an equal seed gives an equal voice"
    )
    parser.add_argument("--say", metavar="TEXT", help="a sentence to speak before and after")
    parser.add_argument(
        "--report", metavar="FOLDER", help="for sound, picture and figures; default: NAME-learned"
    )
    add_force_option(parser)
    add_engine_options(parser, takes_adapters=False)


def run(args: argparse.Namespace, console: Console) -> int:
    """Learn, speak, save, and print the speaker string."""
    from ..voice_learning.language_model import check_encoder
    from ..voice_learning.learning import checked_seed, recordings_of

    library = VoiceLibrary()
    library.check_free(args.name, overwrite=args.force)
    try:
        checked_seed(args.seed)
    except ConfigError as error:
        raise UsageError(f"--{error}") from error
    report = Path(args.report or f"{args.name}-learned")
    if report.exists() and not report.is_dir():
        raise UsageError(f"{report} is a file; name another folder with --report")
    choice = choose_model(args.model)
    check_encoder(choice.find())  # before the model is loaded, as the recordings are checked
    recordings = recordings_of(args.source, args.text, args.seconds, show_tqdm=not console.quiet)
    chat = load_chat(choice, args, console)
    try:
        learned = learn(
            chat,
            recordings,
            from_sample=args.from_sample,
            library=library,
            one_speaker=args.one_speaker,
            seed=args.seed,
            say=console.note,
            show_tqdm=not console.quiet,
        )
        rows = learned.recordings.rows()
        console.note(table(("RECORDING", "SECONDS", ""), *rows[:_MOST_ROWS]))
        if len(rows) > _MOST_ROWS:
            console.note(f"and {len(rows) - _MOST_ROWS} more, which are in {report}/report.json")
        console.note(
            f"nats per code of the sentences that were held out: {learned.held_before:.3f} with "
            f"{learned.began_at}, {learned.held:.3f} after {learned.seconds:.0f} s"
        )
        width = chat.config.gpt.hidden_size
        voice = SavedVoice(args.name, width, choice.label, speaker=learned.speaker)
        path = library.save(voice, overwrite=args.force)
        console.note(f"saved as {args.name} in {path}: chattts say Hello --voice {args.name}")
        print(learned.speaker)
        _write_report(chat, learned, report, args, console)
    finally:
        chat.unload()
    return 0


def _write_report(
    chat: Chat, learned: LearnedVoice, folder: Path, args: argparse.Namespace, console: Console
) -> None:
    """Write the sentence before and after, the picture and the figures."""
    from ..audio.files import save, write_file
    from ..pipeline.sample_sentences import sample_sentences

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be created: {error.strerror or error}") from error
    said = args.say or sample_sentences(chat.config.defaults.language)[0]
    for name, speaker in (("before", learned.before), ("after", learned.speaker)):
        spoken = chat.infer(
            said,
            skip_refine_text=True,
            params_infer_code={
                "spk_emb": speaker,
                "manual_seed": args.seed,
                "show_tqdm": False,
            },
        )
        save(folder / f"{name}.wav", spoken[0])
    if importlib.util.find_spec("matplotlib") is None:
        console.note("no picture: pip install 'chattts-velocity[plot]'")
    else:
        learned.plot(folder / "learning.png")
    text = json.dumps(_figures(learned, said), ensure_ascii=False, indent=1)
    write_file(folder / "report.json", f"{text}\n".encode())
    console.note(f"before.wav, after.wav, the picture and the figures are in {folder}")


def _figures(learned: LearnedVoice, said: str) -> dict[str, Any]:
    """Return what JSON can hold of a learned voice."""
    looks = [asdict(look) for look in learned.looks]
    for look in looks:
        look["learned"] = None if math.isnan(look["learned"]) else look["learned"]
    return {
        "speaker": learned.speaker,
        "before": learned.before,
        "began_at": learned.began_at,
        "nats_a_code": {"before": learned.held_before, "after": learned.held},
        "seconds": round(learned.seconds, 2),
        "said": said,
        "recordings": [list(row) for row in learned.recordings.rows()],
        "looks": looks,
    }
