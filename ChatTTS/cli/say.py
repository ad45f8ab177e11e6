"""``chattts say``: a text to a sound file, or to the ear while it is spoken."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ChatTTSError
from ..voices import VoiceLibrary, find_voice
from .console import Console, UsageError, warn
from .model import FULL_MODEL_HINT, choose_model, load_chat, read_config
from .options import (
    Parser,
    add_command,
    add_engine_options,
    add_refine_levels,
    add_sampling_options,
    add_text_options,
    checked_parameters,
    refine_tags,
    sampling_parameters,
    text_arguments,
)
from .output import choose_output
from .speech_job import SpeechJob
from .texts import gather_text

if TYPE_CHECKING:
    from ..core import Chat
    from .options import Commands

_DETAILS = """\
Speak a text.

  chattts say Hello, world                       into speech.wav, or speech-2.wav, ...
  chattts say "How are you?" -o how.mp3          replaces how.mp3
  chattts say -f story.txt -o story.wav --voice anna --seed 7
  echo "Good morning." | chattts say -o morning.flac
  chattts say "It is me." --sample me.wav --transcript "What I say in it." -o me-too.wav

To hear it while it is spoken (with the extra `play`: pip install 'chattts-velocity[play]'):

  chattts say --play "Hello, world."              into no file; Ctrl-C stops the sound
  chattts say --play --low-latency "Hello."       the first sound comes sooner
  chattts say --play -f story.txt -o story.wav    and into a file that grows

--stream does not play: it gives the sound out while it is spoken, without -o as raw sound on
standard output (16 bit signed little-endian, mono, 24000 Hz). `-` alone is still the text from
standard input; beside a TEXT it stands for standard output.

  chattts say --stream "Hello, world." | aplay -f S16_LE -r 24000
  echo "Hello, world." | chattts say --stream - | aplay -f S16_LE -r 24000
  chattts say --stream -f story.txt -o growing.wav
"""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "say", run, "speak a text", _DETAILS)
    add_text_options(parser)
    _add_output_options(parser)
    _add_voice_options(parser)
    add_sampling_options(parser)
    add_engine_options(parser)
    add_refine_levels(parser).add_argument(
        "--refine",
        action=argparse.BooleanOptionalAction,
        help="let the model put breaks and laughs into the text first (off by default; a level "
        "turns it on)",
    )


def _add_output_options(parser: Parser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help=".wav, .flac, .mp3, .ogg or .opus; `-` for raw sound on standard output",
    )
    group.add_argument(
        "--stream",
        action="store_true",
        help="give out the sound while it is spoken: a growing .wav, or standard output",
    )
    group.add_argument(
        "--play", action="store_true", help="play it while it is spoken; a file only with -o (.wav)"
    )
    group.add_argument(
        "--low-latency",
        action="store_true",
        help="with --play or --stream: begin sooner; the opening is not final yet and deviates "
        "a little",
    )
    group.add_argument("--plot", metavar="FILE", help="also draw the sound (.png, .svg, .pdf)")


def _add_voice_options(parser: Parser) -> None:
    group = parser.add_argument_group("voice")
    group.add_argument(
        "--voice",
        metavar="VOICE",
        help="a name (`chattts voice list`), a file (.json, .txt, .pt) or a speaker string",
    )
    group.add_argument(
        "--sample", metavar="AUDIO", help="speak like this recording; needs --transcript"
    )
    group.add_argument("--transcript", metavar="TEXT", help="exactly what is said in the sample")
    group.add_argument("--speed", type=int, choices=range(10), metavar="0..9", help="5 is usual")
    group.add_argument("--prompt", metavar="TAGS", help="control tags before the text")


def run(args: argparse.Namespace, console: Console) -> int:
    """Speak; gives the exit status."""
    text = gather_text(args.text, args.files, stream=args.stream)
    if args.low_latency and not (args.stream or args.play):
        raise UsageError("--low-latency is about what comes bit by bit: add --play or --stream")
    output = choose_output(args.out, stream=args.stream, play=args.play)
    sampling = sampling_parameters(args) | _prompt(args) | {"show_tqdm": not console.quiet}
    checked_parameters("InferCodeParams", sampling)
    _check_sample(args)
    choice = choose_model(args.model)
    config = read_config(choice)
    voice = find_voice(args.voice, config, VoiceLibrary())
    if args.sample is not None and "spk_smp" in voice.parameters:
        raise UsageError(f"the voice {voice.label} is a sample already; leave out --sample")

    chat = load_chat(choice, args, console)
    arguments = {
        **text_arguments(args),
        **_refining(args, sampling, config.defaults.refine_trained),
        "params_infer_code": {**sampling, **voice.parameters, **_sample(chat, args)},
    }
    speech = SpeechJob(chat, text, arguments, output, keep=args.plot is not None)
    failure = _speak(speech, args, console)
    name = voice.label if args.sample is None else args.sample
    console.note(
        f"model {choice.label} ({args.engine} engine, {chat.device.type}), voice {name}, "
        f"seed {sampling['manual_seed']}"
    )
    if choice.source == "bundled":
        console.note(FULL_MODEL_HINT)
    if args.plot is not None:
        speech.plot(args.plot)
        console.note(f"drawn in {args.plot}")
    if failure is not None:
        raise failure
    return 0


def _speak(speech: SpeechJob, args: argparse.Namespace, console: Console) -> ChatTTSError | None:
    """Speak, and tell what came of it, also where it was ended early.

    Returns:
        What is wrong with the speech, where there is some all the same.
    """
    failure = None
    try:
        if args.stream or args.play:
            speech.stream(low_latency=args.low_latency)
        else:
            failure = speech.speak()
    except (ChatTTSError, KeyboardInterrupt):
        speech.report(console)
        raise
    speech.report(console)
    return failure


def _check_sample(args: argparse.Namespace) -> None:
    """Refuse a recording that cannot be used before a model is loaded for it."""
    if (args.sample is None) != (args.transcript is None):
        raise UsageError(
            "--sample and --transcript go together: the voice follows the recording only if the "
            "transcript is exactly what is said in it"
        )
    if args.sample is not None:
        from ..audio import reference_audio

        reference_audio(args.sample)


def _prompt(args: argparse.Namespace) -> dict[str, str]:
    """The control tags before the text; nothing where none are asked for."""
    if args.speed is None and args.prompt is None:
        return {}
    speed = "" if args.speed is None else f"[speed_{args.speed}]"
    return {"prompt": speed + (args.prompt or "")}


def _sample(chat: Chat, args: argparse.Namespace) -> dict[str, str]:
    if args.sample is None:
        return {}
    return {"spk_smp": chat.sample_audio_speaker(args.sample), "txt_smp": args.transcript}


def _refining(
    args: argparse.Namespace, sampling: Mapping[str, Any], trained: bool
) -> dict[str, Any]:
    """The arguments of ``Chat.infer`` about the refine pass; a level asks for it, too."""
    tags = refine_tags(args)
    wanted = bool(tags) if args.refine is None else args.refine
    if wanted and not trained:
        warn("this model was not trained to refine texts; the text is spoken as it is")
    params = {name: sampling[name] for name in ("manual_seed", "show_tqdm")}
    return {
        "skip_refine_text": not (wanted and trained),
        "params_refine_text": params | ({"prompt": tags} if tags else {}),
    }
