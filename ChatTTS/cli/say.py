"""``chattts say``: speak a text into a sound file, or play it while it is generated."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..config.request_fields import LONGEST_DURATION
from ..errors import ChatTTSError
from ..voices import VoiceLibrary, find_voice
from .console import Console, UsageError, warn
from .marks import add_mark_options, credentials_of, mark_of
from .model import FULL_MODEL_HINT, choose_model, load_chat, read_config
from .options import (
    Commands,
    Parser,
    adapter_options,
    add_command,
    add_engine_options,
    add_refine_levels,
    add_sampling_options,
    add_silence_options,
    add_text_options,
    checked_parameters,
    refine_tags,
    sampling_parameters,
    silence_arguments,
    text_arguments,
)
from .output import choose_output
from .speech_job import SpeechJob
from .texts import gather_text

if TYPE_CHECKING:
    from ..core import Chat

_DETAILS = """\
Speak a text.

  chattts say Hello, world                       write speech.wav, or speech-2.wav, ...
  chattts say "How are you?" -o how.mp3          write how.mp3; an existing file is replaced
  chattts say -f story.txt -o story.wav --voice anna --seed 7
  echo "Good morning." | chattts say -o morning.flac
  chattts say -f story.txt -o story.wav --subtitles story.srt
  chattts say "We have arrived." -o arrived.wav --duration 2.5
  chattts say "It is me." --sample me.wav --transcript "What I say in it." -o me-too.wav

To hear the sound while it is generated (this needs the extra `play`:
pip install 'chattts-velocity[play]'):

  chattts say --play "Hello, world."              write no file; Ctrl-C stops the sound
  chattts say --play --low-latency "Hello."       start playing sooner
  chattts say --play -f story.txt -o story.wav    also write a file, which grows

--stream does not play. It writes the sound while it is generated: without -o as raw samples to
standard output (16 bit signed little-endian, mono, 24000 Hz). With --stream, a `-` beside a TEXT
means standard output; `-` alone reads the text from standard input, as always.

  chattts say --stream "Hello, world." | aplay -f S16_LE -r 24000
  echo "Hello, world." | chattts say --stream - | aplay -f S16_LE -r 24000
  chattts say --stream -f story.txt -o growing.wav
"""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "say", run, "speak a text", _DETAILS)
    add_text_options(parser)
    add_silence_options(_add_output_options(parser), between_paragraphs=True)
    _add_voice_options(parser)
    add_sampling_options(parser)
    add_engine_options(parser)
    add_refine_levels(parser).add_argument(
        "--refine",
        action=argparse.BooleanOptionalAction,
        help="let the model put breaks and laughs into the text first (off by default; a level "
        "option turns it on)",
    )


def _add_output_options(parser: Parser) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help="sound file: .wav, .flac, .mp3, .ogg or .opus; `-`: raw samples to standard output",
    )
    group.add_argument(
        "--stream",
        action="store_true",
        help="write the sound while it is generated: to a growing .wav, or to standard output",
    )
    group.add_argument(
        "--play",
        action="store_true",
        help="play the sound while it is generated; write it only with -o (.wav)",
    )
    group.add_argument(
        "--low-latency",
        action="store_true",
        help="with --play or --stream: start sooner; the first moments sound slightly different",
    )
    group.add_argument(
        "--check",
        action="store_true",
        help="check with a speech recogniser that every word was spoken once (English); the exit "
        "status is 1 otherwise",
    )
    group.add_argument(
        "--guard",
        choices=("retry", "report", "off"),
        help="look for skipped and repeated words while speaking: `report` warns of them, `retry` "
        "also speaks a faulty sentence again, before it is heard; default: retry, and report with "
        "--play or --stream, if the model has heads for word times",
    )
    group.add_argument(
        "--duration",
        type=float,
        metavar="SECONDS",
        help="speak the text in exactly this time; what cannot fit is an error with the shortest "
        "time",
    )
    group.add_argument(
        "--subtitles",
        metavar="FILE",
        help="also write subtitles (.srt, .vtt, .ass, .lrc, .json); a model without heads for word "
        "times is searched for them first (`chattts align`)",
    )
    add_mark_options(group)
    group.add_argument(
        "--plot",
        metavar="FILE",
        help="also draw the waveform (.png, .svg, .pdf), and its words if the model has heads for "
        "word times (`chattts align`)",
    )
    return group


def _add_voice_options(parser: Parser) -> None:
    group = parser.add_argument_group("voice")
    group.add_argument(
        "--voice",
        metavar="VOICE",
        help="name of a voice (`chattts voice list`), a file (.json, .txt, .pt) or a speaker "
        "string",
    )
    group.add_argument(
        "--sample", metavar="AUDIO", help="speak like this recording; needs --transcript"
    )
    group.add_argument(
        "--transcript", metavar="TEXT", help="the exact words that are spoken in the sample"
    )
    group.add_argument(
        "--speed", type=int, choices=range(10), metavar="0..9", help="tempo; 5 is normal"
    )
    group.add_argument("--prompt", metavar="TAGS", help="control tags before the text")


def run(args: argparse.Namespace, console: Console) -> int:
    """Speak; return the exit status."""
    text = gather_text(args.text, args.files, stream=args.stream)
    if args.low_latency and not (args.stream or args.play):
        raise UsageError("--low-latency only works with a stream: add --play or --stream")
    output = choose_output(
        args.out,
        stream=args.stream,
        play=args.play,
        mark=mark_of(args),
        credentials=credentials_of(args),
    )
    if args.subtitles is not None:
        from ..audio.subtitles import subtitle_format

        subtitle_format(args.subtitles)
    sampling = sampling_parameters(args) | _prompt(args) | {"show_tqdm": not console.quiet}
    checked_parameters("InferCodeParams", sampling)
    _check_duration(args)
    _check_sample(args)
    texts = text_arguments(args) | silence_arguments(args)
    choice = choose_model(args.model)
    config = read_config(choice)
    voice = find_voice(args.voice, config, VoiceLibrary(), adapter_options(args.adapter))
    if args.sample is not None and "spk_smp" in voice.parameters:
        raise UsageError(f"the voice {voice.label} is already a sample; leave out --sample")

    chat = load_chat(choice, args, console)
    arguments = {
        **texts,
        **_refining(args, sampling, config.defaults.refine_trained),
        "params_infer_code": {**sampling, **voice.parameters, **_sample(chat, args)},
        **({"word_times": True} if _wants_words(args, chat) else {}),
        "guard": _guard(args, chat),
        **({} if args.duration is None else {"duration": args.duration}),
    }
    job = SpeechJob(chat, text, arguments, output, keep=args.plot is not None or args.check)
    failure = _speak(job, args, console)
    name = job.speaker or voice.label if args.sample is None else args.sample
    console.note(
        f"model {choice.label} ({args.engine} engine, {chat.device.type}), voice {name}, "
        f"seed {sampling['manual_seed']}"
    )
    if choice.source == "bundled":
        console.note(FULL_MODEL_HINT)
    if args.plot is not None:
        job.plot(args.plot)
        console.note(f"drawn in {args.plot}")
        if not chat.alignment_heads:
            console.note("the plot has no words: `chattts align` finds when they are spoken")
    if args.subtitles is not None:
        job.save_subtitles(args.subtitles)
        console.note(f"subtitles in {args.subtitles}")
    good = not args.check or job.check(console)
    if failure is not None:
        raise failure
    return 0 if good else 1


def _guard(args: argparse.Namespace, chat: Chat) -> str | None:
    """Return the ``guard`` of ``Chat.infer``; by default one where the model can be guarded."""
    if args.guard is not None:
        return None if args.guard == "off" else str(args.guard)
    if not (chat.alignment_heads and chat.gives_attention):
        return None  # the default is worth no search for heads
    return "report" if args.stream or args.play else "retry"


def _speak(job: SpeechJob, args: argparse.Namespace, console: Console) -> ChatTTSError | None:
    """Speak and report the result, also if an error or Ctrl-C ended it early.

    Returns:
        The error, if only a part of the text could be spoken.
    """
    failure = None
    try:
        if args.stream or args.play:
            job.stream(low_latency=args.low_latency)
        else:
            failure = job.speak()
    except (ChatTTSError, KeyboardInterrupt):
        job.report(console)
        raise
    job.report(console)
    return failure


def _wants_words(args: argparse.Namespace, chat: Chat) -> bool:
    """Return whether the times of words are asked for; a picture alone is worth no search."""
    return args.subtitles is not None or (args.plot is not None and bool(chat.alignment_heads))


def _check_duration(args: argparse.Namespace) -> None:
    """Check the time of the text before a model is loaded."""
    if args.duration is not None and not 0 < args.duration <= LONGEST_DURATION:
        raise UsageError(f"--duration takes seconds above 0 and at most {LONGEST_DURATION:g}")


def _check_sample(args: argparse.Namespace) -> None:
    """Check the recording before a model is loaded."""
    if (args.sample is None) != (args.transcript is None):
        raise UsageError(
            "--sample and --transcript go together: the voice follows the recording only if the "
            "transcript is exactly what is said in it"
        )
    if args.sample is not None:
        from ..audio import reference_audio

        reference_audio(args.sample)


def _prompt(args: argparse.Namespace) -> dict[str, str]:
    """Return the parameter with the control tags before the text, if there are any."""
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
    """Return the arguments of ``Chat.infer`` for the refine pass; a level turns it on, too."""
    tags = refine_tags(args)
    wanted = bool(tags) if args.refine is None else args.refine
    if wanted and not trained:
        warn("this model was not trained to refine texts; the text is spoken as it is")
    params = {name: sampling[name] for name in ("manual_seed", "show_tqdm")}
    return {
        "skip_refine_text": not (wanted and trained),
        "params_refine_text": params | ({"prompt": tags} if tags else {}),
    }
