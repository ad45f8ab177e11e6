"""``chattts voice``: draw random voices, make voices from recordings, and save them by name."""

from __future__ import annotations

import argparse
import secrets

from ..errors import ChatTTSError
from ..languages import language_name
from ..voices import SavedVoice, VoiceLibrary, check_name, find_voice
from ..voices.blends import blend_speakers, parse_blend
from . import voice_learn
from .console import Console, UsageError, confirm, table, warn
from .model import choose_model, load_chat, read_config
from .options import (
    Commands,
    add_command,
    add_engine_options,
    add_force_option,
    add_model_option,
)

_DETAILS = """\
Make voices and save them by name, for `chattts say --voice NAME`.

  chattts voice new                        draw a random voice and print it
  chattts voice new --name anna --seed 42  draw the voice of seed 42 and save it
  chattts voice from-audio me.wav --transcript "What I say in it." --name me
  chattts voice learn recordings/ --name me    learn a speaker from a minute of recordings
  chattts voice blend anna=0.7 me=0.3      make a voice between others
  chattts voice list
"""
_NEW = """\
Draw a random voice and print its speaker string, which works in every ChatTTS with the same model.
An equal seed gives an equal voice.

  chattts voice new --name anna
  chattts voice new --seed 42 > voice.txt
  chattts say Hello --voice voice.txt
"""
_FROM_AUDIO = """\
Save a recording as a voice: 1 to 30 seconds of one person, clearly spoken.

  chattts voice from-audio me.wav --transcript "What I say in it, word for word." --name me

The transcript must be exactly what is said, since the model relates the words to the sound.
"""


_BLEND = """\
Make a voice between others: names or files of voices, each with its weight.

  chattts voice blend anna=0.7 bert=0.3 --name mix
  chattts say Hello --voice anna:0.7,bert:0.3    the same, without keeping it

Only speakers can be blended: a voice from a recording has no vector.
"""


def add_to(commands: Commands) -> None:
    group = commands.add_parser("voice", help="make and save voices", description=_DETAILS)
    actions = group.add_subparsers(title="commands", metavar="COMMAND", required=True)

    new = add_command(actions, "new", run_new, "draw a random voice", _NEW)
    new.add_argument("--name", help="save it under this name")
    new.add_argument(
        "--seed", type=int, metavar="N", help="random seed; an equal seed gives an equal voice"
    )
    add_model_option(new)
    add_force_option(new)

    audio = add_command(
        actions, "from-audio", run_from_audio, "make a voice from a recording", _FROM_AUDIO
    )
    audio.add_argument("file", metavar="FILE", help="a sound file")
    audio.add_argument(
        "--transcript", required=True, metavar="TEXT", help="the exact words that are spoken in it"
    )
    audio.add_argument("--name", required=True, help="save it under this name")
    add_force_option(audio)
    add_engine_options(audio, takes_adapters=False)

    voice_learn.add_to(actions)

    mix = add_command(actions, "blend", run_blend, "make a voice between others", _BLEND)
    mix.add_argument("parts", metavar="VOICE=WEIGHT", nargs="+", help="a voice and its weight")
    mix.add_argument("--name", help="save it under this name")
    add_model_option(mix)
    add_force_option(mix)

    listing = add_command(
        actions, "list", run_list, "list all voices", "List the model's voices and your own."
    )
    add_model_option(listing)

    show = add_command(
        actions, "show", run_show, "print a voice", "Print one of your voices or of the model's."
    )
    show.add_argument("name", metavar="NAME")
    add_model_option(show)

    remove = add_command(actions, "remove", run_remove, "delete a voice", "Delete your voice NAME.")
    remove.add_argument("name", metavar="NAME")
    remove.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


def run_new(args: argparse.Namespace, console: Console) -> int:
    """Draw a voice, print it, and save it if it has a name."""
    library = VoiceLibrary()
    if args.name is not None:
        library.check_free(args.name, overwrite=args.force)
    choice = choose_model(args.model)
    config = read_config(choice)
    seed = secrets.randbelow(2**32) if args.seed is None else args.seed
    if not -(2**63) <= seed < 2**64:
        raise UsageError(f"--seed must fit into 64 bits, not {seed}")

    import torch

    from ..model.speaker import Speaker

    # Always on the CPU, so that a seed gives the same voice on every machine.
    speaker = Speaker(config.gpt.hidden_size, config.spk_stat, torch.device("cpu"))
    torch.manual_seed(seed)
    string = speaker.sample_random()
    if args.name is not None:
        voice = SavedVoice(
            args.name, config.gpt.hidden_size, choice.label, speaker=string, seed=seed
        )
        path = library.save(voice, overwrite=args.force)
        console.note(f"saved as {args.name} in {path}: chattts say Hello --voice {args.name}")
    console.note(f"model {choice.label}, seed {seed}")
    print(string)
    return 0


def run_from_audio(args: argparse.Namespace, console: Console) -> int:
    """Save a recording with its transcript as a voice."""
    from ..audio import reference_audio

    library = VoiceLibrary()
    library.check_free(args.name, overwrite=args.force)
    if not args.transcript.strip():
        raise UsageError("the transcript is empty; it must be what is said in the recording")
    reference_audio(args.file)  # checks the recording before a model is loaded
    choice = choose_model(args.model)
    chat = load_chat(choice, args, console)
    voice = SavedVoice(
        args.name,
        chat.config.gpt.hidden_size,
        choice.label,
        sample=chat.sample_audio_speaker(args.file),
        transcript=args.transcript.strip(),
    )
    path = library.save(voice, overwrite=args.force)
    console.note(f"saved as {args.name} in {path}: chattts say Hello --voice {args.name}")
    return 0


def run_blend(args: argparse.Namespace, console: Console) -> int:
    """Blend voices, print the result, and save it if it has a name."""
    library = VoiceLibrary()
    if args.name is not None:
        library.check_free(args.name, overwrite=args.force)
    choice = choose_model(args.model)
    config = read_config(choice)
    parts = [_weighted(part) for part in args.parts]
    found = [(find_voice(name, config, library).parameters, name, w) for name, w in parts]
    width = config.gpt.hidden_size
    string = blend_speakers(found, width)
    if args.name is not None:
        voice = SavedVoice(args.name, width, choice.label, speaker=string)
        path = library.save(voice, overwrite=args.force)
        console.note(f"saved as {args.name} in {path}: chattts say Hello --voice {args.name}")
    print(string)
    return 0


def _weighted(part: str) -> tuple[str, float]:
    parsed = parse_blend(part) or [(part, 1.0)]
    if len(parsed) != 1:
        raise UsageError(f"give one voice per word, such as anna=0.7, not {part!r}")
    return parsed[0]


def run_list(args: argparse.Namespace, console: Console) -> int:
    """Print the voices of the model and of the library."""
    library = VoiceLibrary()
    choice = choose_model(args.model)
    defaults = read_config(choice, download=False).defaults
    lines = []
    for name in defaults.speakers:
        codes = [code for code, other in defaults.language_speakers.items() if other == name]
        uses = ["default"] if name == defaults.speaker else []
        uses += [f"default for {language_name(code)}" for code in codes]
        mark = f" ({', '.join(uses)})" if uses else ""
        hidden = ", hidden by yours" if name in library else ""
        lines.append((name, "speaker", f"of the model {choice.label}{mark}{hidden}"))
    for name in library.names():
        try:
            voice = library.load(name)
        except ChatTTSError as error:
            warn(str(error))
        else:
            lines.append((name, voice.kind, f"yours, for the model {voice.model}"))
    if lines:
        print(table(("NAME", "KIND", "FROM"), *lines))
    else:
        console.note("no voices have names yet: chattts voice new --name NAME")
    console.note(f"your voices are in {library.folder}")
    return 0


def run_show(args: argparse.Namespace, console: Console) -> int:
    """Print a voice's string, and its other properties on standard error."""
    library = VoiceLibrary()
    if args.name not in library:
        choice = choose_model(args.model)
        speakers = read_config(choice, download=False).defaults.speakers
        if args.name in speakers:
            console.note(f"speaker of the model {choice.label}")
            print(speakers[args.name])
            return 0
    voice = library.load(args.name)
    seed = "" if voice.seed is None else f", seed {voice.seed}"
    console.note(f"{voice.kind} for the model {voice.model} ({voice.width} values){seed}")
    if voice.transcript is not None:
        console.note(f"transcript: {voice.transcript}")
    print(voice.string)
    return 0


def run_remove(args: argparse.Namespace, console: Console) -> int:
    """Delete a voice of the library."""
    library = VoiceLibrary()
    if check_name(args.name) in library and not confirm(f"Forget the voice {args.name}?", args.yes):
        console.note("nothing was changed")
        return 1
    library.remove(args.name)
    console.note(f"{args.name} is deleted")
    return 0
