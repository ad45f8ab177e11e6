"""The stage ``gpt``: the language model, on texts and codes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, logsigmoid
from torch.optim import AdamW, Optimizer

from ChatTTS.config import EmbedConfig, GPTConfig
from ChatTTS.model.dvae import DVAE
from ChatTTS.model.embed import Embed
from ChatTTS.model.llama_config import LlamaShape

from .batches import IGNORED, Mixture, SpeechBatch, Steps, TextBatch, speech_batch
from .checkpoints import checksum, load_average, read_origin, read_position
from .codec import NAME as CODEC_NAME
from .codec import load_codec
from .coded import coded_corpus, encode, groups_of_similar_length
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
# Codes need a hundredth of the room of speech, so the language model gets more utterances than are
# kept as speech: nothing helps a voice as much as many different words.
CORPUS_TIMES = 4
NUM_CODEBOOKS, NUM_CODES = 4, 625  # the id 625 ends an utterance
_POSITIONS = 4096  # of a pass that nothing is learned from, padding included


@dataclass(frozen=True)
class GPTSizes:
    """Sizes of the language model.

    Attributes:
        hidden, inner, heads, layers: of the Llama.
        positions: the most that it can read.
    """

    hidden: int = 256
    inner: int = 768
    heads: int = 4
    layers: int = 7
    positions: int = 4096

    @property
    def config(self) -> GPTConfig:
        """As ``asset/config.json`` has them."""
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
        """The embeddings' part of the same."""
        return EmbedConfig(self.hidden, NUM_CODES + 1, len(TOKENS), NUM_CODEBOOKS)

    @property
    def llama(self) -> LlamaShape:
        """As ``asset/gpt/config.json`` has them."""
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
    """How the language model is trained.

    Attributes:
        codebook_weights: of the four losses. The residual codes hardly matter to the ear.
        end_weight: of the binary loss on the end. Any of the four heads ends an utterance, and
            those of the residual codes are nearly uniform: without it some rank the end first.
        guidance_weight, guided_heads: of the loss that points two layers' heads at the character
            which is being spoken.
        sound_weight: of the loss on what the teacher is saying, read off an inner layer. What a
            letter sounds like is learned sooner from the sounds' names than from codes, which
            hold everything else as well.
        refine_weight: of the refine pass.
        own_frames, own_temperature, own_from: of each sequence a share of the frames that it reads,
            drawn from 0 to ``own_frames``, is what the model itself draws there at this
            temperature, once this share of the budget is spent. Without, it speaks clearly after
            frames of the teacher and drifts away after its own.
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
        self.sounds = nn.Linear(sizes.hidden, 2 * len(SOUNDS))  # for training alone
        # A text token and a frame, the sum of four codes, enter with the speaker's length: one.
        nn.init.normal_(self.embed.text.weight, std=sizes.hidden**-0.5)
        nn.init.normal_(self.embed.code.weight, std=0.5 * sizes.hidden**-0.5)
        middle = max(1, sizes.layers // 2)
        self.guided_layers = tuple({middle - 1, min(middle, sizes.layers - 1)})

    def speech(self, batch: SpeechBatch, guided_heads: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Hidden states [B, L, hidden], those of an inner layer, and the guidance loss (0 without
        guided heads)."""
        text = self.embed.embed_text(batch.ids)
        frames = self.embed.embed_codes(batch.codes)
        x = torch.where(batch.is_code[..., None], frames, text)
        rest = x.new_zeros(len(batch.points), self.sizes.hidden - COORDINATES)
        speakers = torch.cat([batch.points.to(x), rest], dim=1)
        x = torch.where(batch.is_slot[..., None], speakers[:, None], x)
        guidance = None
        if guided_heads:
            guidance = Guidance(batch.spoken, self.guided_layers, guided_heads)
        hidden, inner, loss = self.llama(x, guidance)
        return hidden, inner, loss

    def text(self, batch: TextBatch) -> Tensor:
        """Hidden states [B, L, hidden]."""
        hidden: Tensor = self.llama(self.embed.embed_text(batch.ids))[0]
        return hidden

    @torch.no_grad()
    def hiddens(self, batch: SpeechBatch) -> list[Tensor]:
        """For each sequence the hidden states [frames, hidden] that its own frames (not the
        sample's) are drawn from: what the Decoder reads. In float32."""
        hidden, _, _ = self.speech(batch)
        is_predicting = batch.targets[..., 0] != IGNORED
        # The last of them predicts the end, and gives no sound.
        return [h[p][:-1].float() for h, p in zip(hidden, is_predicting, strict=True)]


@torch.no_grad()
def with_own_frames(
    model: SpeechModel,
    batch: SpeechBatch,
    most: float,
    temperature: float,
    generator: torch.Generator,
) -> SpeechBatch:
    """``batch`` with some of the frames that it reads drawn by the model, all at once, from what it
    predicts for them (scheduled sampling in parallel, Mihaylova and Martins, 2019). The frames to
    predict stay the teacher's, so it learns to come back from where its own frames lead.

    Args:
        most: of each sequence a share drawn from 0 to this is replaced.
        generator: of the draws, on the batch's device.
    """
    rows, places = batch.ids.shape
    device = batch.ids.device
    share = most * torch.rand((rows, 1), generator=generator, device=device)
    # A frame is read one position after the one that predicts it; the end is never read.
    is_read = (batch.targets[:, :-1, 0] != IGNORED) & batch.is_code[:, 1:]
    chosen = is_read & (torch.rand((rows, places - 1), generator=generator, device=device) < share)
    with autocast(device):
        hidden = model.speech(batch)[0][:, :-1][chosen]
        logits = model.embed.code_logits(hidden)[..., :NUM_CODES]
    # One number a draw, where torch.multinomial takes one for each code and most of the time.
    cumulated = (logits.float() / temperature).softmax(-1).cumsum(-1)
    heights = torch.rand(cumulated.shape[:2], generator=generator, device=device)[..., None]
    drawn = torch.searchsorted(cumulated, heights).clamp_max(NUM_CODES - 1)[..., 0]
    codes = batch.codes.clone()
    codes[:, 1:][chosen] = drawn
    return replace(batch, codes=codes)


def code_losses(
    logits: Tensor, targets: Tensor, settings: GPTSettings
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Losses of predicted frames, and the unweighted ones of each codebook for the log.

    Args:
        logits: float32 [n, num_vq, codes and the end].
        targets: int64 [n, num_vq].
    """
    each = cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean(0)
    weights = each.new_tensor(settings.codebook_weights)
    codes = (each * weights).sum() / weights.sum()
    # The log odds of the end against all codes together.
    odds = logits[..., -1] - logits[..., :-1].logsumexp(-1)
    is_end = targets == logits.shape[-1] - 1
    end = -torch.where(is_end, logsigmoid(odds), logsigmoid(-odds)).mean()
    metrics = {f"codebook_{number}": loss for number, loss in enumerate(each)}
    return {"codes": codes, "end": settings.end_weight * end}, metrics


def sound_loss(model: SpeechModel, inner: Tensor, sounds: Tensor) -> Tensor:
    """Cross-entropy of the predicted frames' sounds and of the sounds after those.

    Args:
        inner: hidden states [n, hidden] of an inner layer.
        sounds: int64 [n, 2].
    """
    logits = model.sounds(inner).float().unflatten(-1, (2, len(SOUNDS)))
    return cross_entropy(logits.flatten(0, 1), sounds.flatten(), ignore_index=IGNORED)


def text_loss(model: SpeechModel, batch: TextBatch) -> Tensor:
    """Cross-entropy of the refined texts."""
    wanted = batch.targets != IGNORED
    logits = model.embed.text_logits(model.text(batch)[wanted])[:, 0]
    return cross_entropy(logits, batch.targets[wanted])


@dataclass
class GPTTask:
    """What ``training.train`` trains.

    Attributes:
        model: on its device.
        steps: the data.
        settings: see there.
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
        """Speech and refine pairs of a step."""
        return self.steps.speech(step), self.steps.text(step)

    def objectives(
        self, batch: tuple[SpeechBatch, TextBatch | None], moment: Moment
    ) -> Iterator[Objective]:
        """The one update of a step."""
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
    """The trained language model of a run, frozen, on its device.

    Raises:
        AssetError: there is none yet.
    """
    model = SpeechModel(GPTSizes())
    load_average(run.state(NAME), NAME, model)
    return model.to(run.device).eval().requires_grad_(False)


def hiddens_of(
    codec: DVAE, model: SpeechModel, device: torch.device
) -> Callable[[Sequence[Spoken]], Sequence[Tensor]]:
    """What the decoder stage asks for: utterances to the hidden states [frames, hidden] of the
    trained language model, which reads the teacher's frames.

    The state after a frame knows which frame it was. So from the teacher's the decoder learns to
    say what was drawn; from frames of the model's own it would learn to say what might have been.
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
    """The run's corpus and, where there is more of it, more."""
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
