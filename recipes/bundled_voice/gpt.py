"""The stage ``gpt``: train the language model on texts and codes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, logsigmoid
from torch.optim import AdamW, Optimizer

from ChatTTS.config import EmbedConfig, GPTConfig
from ChatTTS.model.dvae import DVAE
from ChatTTS.model.embed import Embed
from ChatTTS.model.llama_config import LlamaShape
from ChatTTS.voice_learning.sequences import (
    IGNORED,
    CodeBatch,
    codebook_losses,
    embed_batch,
    groups_of_similar_length,
)

from .batches import Mixture, SpeechBatch, Steps, TextBatch, frame_states, speech_batch
from .checkpoints import checksum, load_average, read_origin, read_position
from .codec import NAME as CODEC_NAME
from .codec import load_codec
from .coded import coded_corpus, encode
from .data import Corpus
from .decoder import train_decoder
from .llama import Guidance, Llama
from .muon import Muon
from .prompts import Prompts
from .run import Run, Utterances
from .speakers import COORDINATES, varied
from .texts import RefinePairs
from .training import Moment, Objective, autocast, train, warn_of_other_origins
from .types import SOUNDS, Spoken
from .vocabulary import TOKENS, tokenizer

logger = logging.getLogger(__name__)

NAME = "gpt"
REFINE_PAIRS = 50_000
# Codes need a hundredth of the space of speech, so the language model gets more utterances than are
# kept as speech. Nothing improves a voice as much as many different words.
CORPUS_TIMES = 4
NUM_CODEBOOKS, NUM_CODES = 4, 625  # the id 625 ends an utterance
_POSITIONS = 4096  # positions of an inference pass, padding included


@dataclass(frozen=True)
class GPTSizes:
    """Sizes of the language model.

    Attributes:
        hidden, inner, heads, layers: sizes of the Llama.
        positions: the most positions that it can read.
    """

    hidden: int = 256
    inner: int = 768
    heads: int = 4
    layers: int = 7
    positions: int = 4096

    @property
    def config(self) -> GPTConfig:
        """Return the sizes in the form of ``asset/config.json``."""
        return GPTConfig(
            hidden_size=self.hidden,
            intermediate_size=self.inner,
            num_attention_heads=self.heads,
            num_hidden_layers=self.layers,
            max_position_embeddings=self.positions,
            num_audio_tokens=NUM_CODES + 1,
            num_text_tokens=len(TOKENS),
            num_vq=NUM_CODEBOOKS,
        )

    @property
    def embed(self) -> EmbedConfig:
        """Return the sizes of the embeddings."""
        return EmbedConfig(self.hidden, NUM_CODES + 1, len(TOKENS), NUM_CODEBOOKS)

    @property
    def llama(self) -> LlamaShape:
        """Return the sizes in the form of ``asset/gpt/config.json``."""
        return LlamaShape(
            hidden_size=self.hidden,
            intermediate_size=self.inner,
            num_attention_heads=self.heads,
            num_hidden_layers=self.layers,
            max_position_embeddings=self.positions,
            num_key_value_heads=self.heads,
            head_dim=self.hidden // self.heads,
        )


@dataclass(frozen=True)
class GPTSettings:
    """The settings of the language model's training.

    Attributes:
        codebook_weights: weights of the four codebooks' losses. The residual codes hardly matter
            to the ear.
        end_weight: weight of the binary loss on the end. Any of the four heads can end an
            utterance, and those of the residual codes are nearly uniform. Without this loss, some
            of them rank the end first.
        guidance_weight, guided_heads: weight of the loss that makes heads of two layers attend to
            the character being spoken, and the number of these heads.
        sound_weight: weight of the loss on the teacher's sound, predicted from an inner layer. The
            names of sounds teach the sounds of letters sooner than codes do, since codes hold
            everything else as well.
        refine_weight: weight of the loss on the refine pass.
        own_frames, own_temperature, own_from: once the share ``own_from`` of the budget is spent, a
            share of the frames that the model reads is replaced by frames that it draws itself, at
            this temperature. For each sequence this share is drawn from 0 to ``own_frames``.
            Without it the model speaks clearly after the teacher's frames, but drifts after its
            own.
        matrix_rate, rate: learning rates of Muon and of AdamW.
    """

    codebook_weights: tuple[float, ...] = (1.6, 0.4, 1.6, 0.4)
    end_weight: float = 10.0
    guidance_weight: float = 0.2
    guided_heads: int = 2
    sound_weight: float = 1.0
    refine_weight: float = 0.3
    own_frames: float = 1.0
    own_temperature: float = 0.3
    own_from: float = 0.4
    matrix_rate: float = 3e-3
    rate: float = 1.5e-3


class SpeechModel(nn.Module):
    """The Llama between its embeddings and its heads."""

    def __init__(self, sizes: GPTSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.llama = Llama(sizes.llama)
        self.embed = Embed(sizes.embed)
        self.sounds = nn.Linear(sizes.hidden, 2 * len(SOUNDS))  # used only in training
        # Text tokens and frames (sums of four codes) have about length 1, like the speaker vector.
        nn.init.normal_(self.embed.text.weight, std=sizes.hidden**-0.5)
        nn.init.normal_(self.embed.code.weight, std=0.5 * sizes.hidden**-0.5)
        middle = max(1, sizes.layers // 2)
        self.guided_layers = tuple({middle - 1, min(middle, sizes.layers - 1)})

    def guided(self, count: int) -> list[tuple[int, int]]:
        """Return the guided heads, pairs of a layer and a head.

        Args:
            count: of the guided heads in each guided layer.
        """
        heads = range(min(count, self.sizes.heads))
        return [(layer, head) for layer in sorted(self.guided_layers) for head in heads]

    def speech(self, batch: SpeechBatch, guided_heads: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Return hidden states [B, L, hidden], those of an inner layer, and the guidance loss.

        The loss is 0 without guided heads.
        """
        points = batch.points
        rest = points.new_zeros(len(points), self.sizes.hidden - COORDINATES)
        x = embed_batch(self.embed, batch, torch.cat([points, rest], dim=1))
        guidance = None
        if guided_heads:
            guidance = Guidance(batch.spoken, self.guided_layers, guided_heads)
        hidden, inner, loss = self.llama(x, guidance)
        return hidden, inner, loss

    def text(self, batch: TextBatch) -> Tensor:
        """Return hidden states [B, L, hidden]."""
        hidden: Tensor = self.llama(self.embed.embed_text(batch.ids))[0]
        return hidden

    @torch.no_grad()
    def hiddens(self, batch: SpeechBatch) -> list[Tensor]:
        """Return the Decoder's input for each sequence: float32 hidden states [frames, hidden].

        These are the states from which the sequence's own frames, not the sample's, are drawn.
        """
        hidden, _, _ = self.speech(batch)
        return frame_states(hidden, batch)


B = TypeVar("B", bound=CodeBatch)
Read = TypeVar("Read", bound=CodeBatch, contravariant=True)


class Predicts(Protocol[Read]):
    """A model of speech whose hidden states predict frames.

    Attributes:
        embed: embeddings and heads.
    """

    embed: Embed

    def speech(self, batch: Read, /) -> tuple[Tensor, ...]:
        """Return the hidden states [B, L, hidden], and more."""


@torch.no_grad()
def with_own_frames(
    model: Predicts[B],
    batch: B,
    most: float,
    temperature: float,
    generator: torch.Generator,
) -> B:
    """Replace some frames that the model reads by frames that it draws itself.

    All of them are drawn at once from the model's predictions (scheduled sampling in parallel,
    Mihaylova and Martins, 2019). The frames to predict stay the teacher's, so the model learns to
    recover after its own frames.

    Args:
        most: in each sequence, a share drawn from 0 to this is replaced.
        generator: generator of the draws, on the batch's device.
    """
    rows, places = batch.ids.shape
    device = batch.ids.device
    share = most * torch.rand((rows, 1), generator=generator, device=device)
    # A frame is read one position after the position that predicts it; the end is never read.
    is_read = (batch.targets[:, :-1, 0] != IGNORED) & batch.is_code[:, 1:]
    chosen = is_read & (torch.rand((rows, places - 1), generator=generator, device=device) < share)
    with autocast(device):
        hidden = model.speech(batch)[0][:, :-1][chosen]
        logits = model.embed.code_logits(hidden)[..., :-1]  # without the end
    # This takes one random number per draw. torch.multinomial takes one per code, which is slow.
    cumulated = (logits.float() / temperature).softmax(-1).cumsum(-1)
    heights = torch.rand(cumulated.shape[:2], generator=generator, device=device)[..., None]
    drawn = torch.searchsorted(cumulated, heights).clamp_max(logits.shape[-1] - 1)[..., 0]
    codes = batch.codes.clone()
    codes[:, 1:][chosen] = drawn
    return replace(batch, codes=codes)


def code_losses(
    logits: Tensor, targets: Tensor, settings: GPTSettings
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the loss terms of predicted frames, and each codebook's unweighted loss for the log.

    Args:
        logits: float32 [n, num_vq, codes and the end].
        targets: int64 [n, num_vq].
    """
    each = codebook_losses(logits, targets).mean(0)
    weights = each.new_tensor(settings.codebook_weights)
    codes = (each * weights).sum() / weights.sum()
    # The log odds of the end against all codes.
    odds = logits[..., -1] - logits[..., :-1].logsumexp(-1)
    is_end = targets == logits.shape[-1] - 1
    end = -torch.where(is_end, logsigmoid(odds), logsigmoid(-odds)).mean()
    metrics = {f"codebook_{number}": loss for number, loss in enumerate(each)}
    return {"codes": codes, "end": settings.end_weight * end}, metrics


def sound_loss(model: SpeechModel, inner: Tensor, sounds: Tensor) -> Tensor:
    """Return the cross-entropy of the predicted frames' sounds and of the sounds after those.

    Args:
        inner: hidden states [n, hidden] of an inner layer.
        sounds: int64 [n, 2].
    """
    logits = model.sounds(inner).float().unflatten(-1, (2, len(SOUNDS)))
    return cross_entropy(logits.flatten(0, 1), sounds.flatten(), ignore_index=IGNORED)


def text_loss(model: SpeechModel, batch: TextBatch) -> Tensor:
    """Return the cross-entropy of the refined texts."""
    wanted = batch.targets != IGNORED
    logits = model.embed.text_logits(model.text(batch)[wanted])[:, 0]
    return cross_entropy(logits, batch.targets[wanted])


@dataclass
class GPTTask:
    """The language model's task for ``training.train``.

    Attributes:
        model: the model, on its device.
        steps: the data.
        settings: the training's settings.
    """

    model: SpeechModel
    steps: Steps
    settings: GPTSettings = GPTSettings()
    name: str = NAME
    modules: Mapping[str, nn.Module] = field(init=False)
    optimizers: Mapping[str, Optimizer] = field(init=False)

    def __post_init__(self) -> None:
        self.modules = {NAME: self.model}
        matrices = [p for p in self.model.llama.parameters() if p.ndim == 2]
        chosen = {id(p) for p in matrices}
        others = [p for p in self.model.parameters() if id(p) not in chosen]
        settings = self.settings
        self.optimizers = {
            "matrices": Muon(matrices, lr=settings.matrix_rate),
            "others": AdamW(others, lr=settings.rate, betas=(0.9, 0.98), weight_decay=0.0),
        }

    def batch(self, step: int) -> tuple[SpeechBatch, TextBatch | None]:
        """Return speech and refine pairs of a step."""
        return self.steps.speech(step), self.steps.text(step)

    def objectives(
        self, batch: tuple[SpeechBatch, TextBatch | None], moment: Moment
    ) -> Iterator[Objective]:
        """Yield the one update of a step."""
        device = self.model.embed.code.weight.device
        settings = self.settings
        speech = batch[0].to(device)
        if moment.spent >= settings.own_from:
            speech = with_own_frames(
                self.model,
                speech,
                settings.own_frames,
                settings.own_temperature,
                moment.generator,
            )
        wanted = speech.targets[..., 0] != IGNORED
        with autocast(device):
            hidden, inner, guided = self.model.speech(speech, settings.guided_heads)
            logits = self.model.embed.code_logits(hidden[wanted])
            sounds = sound_loss(self.model, inner[wanted], speech.sounds[wanted])
        losses, metrics = code_losses(logits, speech.targets[wanted], settings)
        losses["attention"] = settings.guidance_weight * guided
        losses["sounds"] = settings.sound_weight * sounds
        tokens = speech.tokens
        if batch[1] is not None:
            text = batch[1].to(device)
            with autocast(device):
                loss = text_loss(self.model, text)
            losses["refine"] = settings.refine_weight * loss
            tokens += text.ids.numel()
        yield Objective(losses, metrics=metrics, counts={"tokens": tokens})


def load_gpt(run: Run) -> SpeechModel:
    """Load the trained language model of a run, frozen, on the run's device.

    Raises:
        AssetError: the language model is not trained yet.
    """
    model = SpeechModel(GPTSizes())
    load_average(run.state(NAME), NAME, model)
    return model.to(run.device).eval().requires_grad_(False)


def hiddens_of(
    codec: DVAE, model: SpeechModel, device: torch.device
) -> Callable[[Sequence[Spoken]], Sequence[Tensor]]:
    """Return the decoder stage's function from utterances to hidden states [frames, hidden].

    The trained language model reads the teacher's frames. The state after a frame contains that
    frame. So with the teacher's frames the decoder learns to speak the frames that were read; with
    frames drawn by the model its input and its target would differ.
    """
    prompts = Prompts(tokenizer())

    def hiddens(utterances: Sequence[Spoken]) -> Sequence[Tensor]:
        items = encode(codec, utterances, device)
        sequences = [prompts.speech(item) for item in items]
        found: dict[int, Tensor] = {}
        for part in groups_of_similar_length([len(sequence) for sequence in sequences], _POSITIONS):
            batch = speech_batch([sequences[index] for index in part], NUM_CODES)
            with autocast(device):
                found.update(zip(part, model.hiddens(batch.to(device)), strict=True))
        return [found[index] for index in range(len(sequences))]

    return hiddens


def main(run: Run) -> None:
    """Code the corpus, and train the language model on it."""
    budget, codec = run.budgets[NAME], load_codec(run)
    origin = {CODEC_NAME: checksum(codec)}
    if budget.spent(read_position(run.state(NAME))) >= 1.0:
        warn_of_other_origins(NAME, read_origin(run.state(NAME)), origin)
        logger.info("%s: already trained", NAME)
        return
    items = coded_corpus(
        varied(_corpus(run), run.seed),
        codec,
        run.out / "data" / "codes",
        run.device,
        run.seed,
    )
    pairs = RefinePairs(run.seed, REFINE_PAIRS)
    steps = Steps(items, pairs, Prompts(tokenizer()), NUM_CODES, seed=run.seed, mixture=Mixture())
    torch.manual_seed(run.seed)
    model = SpeechModel(GPTSizes()).to(run.device)
    if run.compiled:
        model.llama.compile_layers()
    task = GPTTask(model, steps)
    train(task, run.out, budget, device=run.device, seed=run.seed, origin=origin)


def _corpus(run: Run) -> Utterances:
    """Return the corpus for the language model; a generated one is made larger."""
    known = run.corpus
    if not isinstance(known, Corpus):
        return known
    return Corpus(known.seed, CORPUS_TIMES * len(known))


def train_decoder_stage(run: Run) -> None:
    """Train the decoder on the trained language model's hidden states."""
    speech = replace(run, corpus=varied(run.corpus, run.seed))
    codec, model = load_codec(run), load_gpt(run)
    origin = {CODEC_NAME: checksum(codec), NAME: checksum(model)}
    train_decoder(speech, hiddens_of(codec, model, run.device), GPTSizes().hidden, origin)
