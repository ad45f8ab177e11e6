"""The player, on a fake sound device that records the samples that it gets."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
import soxr

from ChatTTS.audio import Player, find_sound_device, playback
from ChatTTS.errors import AudioError

from ..support.sound_tools import FakeLibrary, PortAudioError, hide_portaudio

FULL = 7200  # samples that wait for the device before a write blocks


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    return FakeLibrary.installed(monkeypatch)


@pytest.fixture
def slow(device: FakeLibrary) -> FakeLibrary:
    """A fake device that asks for samples only when the test makes it."""
    device.asks = False
    return device


def noise(n: int) -> np.ndarray:
    return np.random.default_rng(n).uniform(-1, 1, n).astype(np.float32)


# ---------------------------------------------------------------- what is heard


def test_every_sample_is_heard_once_and_in_order(device: FakeLibrary) -> None:
    chunks = [noise(n) for n in (1, 5000, 480, 20_000, 777)]
    total = 0
    with Player() as player:
        for chunk in chunks:
            player.write(chunk)
            total += len(chunk)
            assert player.samples_written == total
    settings = device.stream.settings
    assert (settings["samplerate"], settings["channels"]) == (24_000, 1)
    assert settings["device"] is None
    np.testing.assert_array_equal(device.stream.heard, np.concatenate(chunks))
    assert player.underruns == 0


def test_shapes_of_chunks_and_empty_ones(device: FakeLibrary) -> None:
    with Player() as player:
        player.write(noise(10)[None])
        player.write(np.zeros((1, 0), np.float32))
        player.write(np.array([16384, -32768], np.int16))
        player.write([])
    np.testing.assert_array_equal(device.stream.heard, [*noise(10), 0.5, -1.0])


def test_where_nothing_was_written_nothing_is_waited_for(slow: FakeLibrary) -> None:
    with Player(latency=0.5):
        pass
    assert slow.stream.settings["latency"] == 0.5
    assert slow.stream.events == ["start", "abort", "close"]


def test_a_device_with_a_rate_of_its_own_gets_that(device: FakeLibrary) -> None:
    device.takes = {(48_000, 1)}
    samples = noise(5000)
    with Player() as player:
        for start in range(0, 5000, 700):
            player.write(samples[start : start + 700])
    assert player.device.rate == 48_000
    assert player.samples_written == 5000
    expected = soxr.resample(samples, 24_000, 48_000)
    np.testing.assert_allclose(device.stream.heard, expected, atol=1e-6)


def test_a_device_that_is_stereo_only_gets_both_channels(device: FakeLibrary) -> None:
    device.takes = {(24_000, 2), (48_000, 2)}
    with Player() as player:
        player.write(noise(3000))
    assert (player.device.rate, player.device.channels) == (24_000, 2)
    for channel in device.stream.frames.T:
        np.testing.assert_array_equal(channel[:3000], noise(3000))


def test_a_named_device(device: FakeLibrary) -> None:
    with Player("Speaker"):
        assert device.stream.settings["device"] == "Speaker"
    assert find_sound_device("Speaker").name == "Speaker"


def test_silence_fills_what_is_missing_and_gaps_are_counted(slow: FakeLibrary) -> None:
    player, samples = Player(), noise(900)
    ask = slow.stream.ask
    assert not ask(64).any()  # before anything was written
    player.write(samples[:300])
    np.testing.assert_array_equal(ask(200)[:, 0], samples[:200])
    np.testing.assert_array_equal(ask(100)[:, 0], samples[200:300])
    player.write(samples[300:400])
    assert player.underruns == 0  # the write came just in time
    np.testing.assert_array_equal(ask(150)[:, 0], [*samples[300:400], *np.zeros(50)])
    assert not ask(64).any()
    assert player.underruns == 0  # the speech may have ended here
    player.write(samples[400:600])
    assert player.underruns == 1
    player.write(samples[600:])
    np.testing.assert_array_equal(ask(500)[:, 0], samples[400:])
    assert player.underruns == 1


def test_what_the_device_lacked_counts_too(slow: FakeLibrary) -> None:
    slow.underflows = (True, False, True, True)
    player = Player()
    slow.stream.ask(10)  # before the first sample nothing is lacking
    player.write(noise(100))
    for _ in range(3):
        slow.stream.ask(10)
    assert player.underruns == 2


# ---------------------------------------------------------------- waiting and ending


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, errors


def ended(thread: threading.Thread) -> bool:
    thread.join(30)
    return not thread.is_alive()


def wait_until_full(player: Player, thread: threading.Thread) -> None:
    while not player._queue.is_full:
        assert thread.is_alive()


def test_writing_waits_while_the_device_has_enough(slow: FakeLibrary) -> None:
    player = Player()
    writer, errors = in_thread(lambda: player.write(noise(2 * FULL)))
    wait_until_full(player, writer)
    for _ in range(14):
        assert player.samples_written <= FULL + sum(map(len, slow.stream.blocks))
        assert writer.is_alive()
        slow.stream.ask(480)
        wait_until_full(player, writer)
    slow.stream.ask(480)
    assert ended(writer)
    assert not errors
    slow.stream.ask(2 * FULL - 15 * 480)
    np.testing.assert_array_equal(slow.stream.frames[:, 0], noise(2 * FULL))


def test_closing_waits_until_all_is_heard(slow: FakeLibrary) -> None:
    player = Player()
    player.write(noise(1000))
    closer, errors = in_thread(player.close)
    while not player._queue.is_last:
        assert closer.is_alive()
    slow.stream.ask(1000)
    slow.stream.ask(2400)  # one buffer of the device, so that the end of the sound is not cut off
    assert slow.stream.events == ["start"]
    slow.stream.ask(1)
    assert ended(closer)
    assert not errors
    np.testing.assert_array_equal(slow.stream.heard, noise(1000))
    assert player.underruns == 0


def test_abort_from_elsewhere_ends_a_write(slow: FakeLibrary) -> None:
    player = Player()
    writer, errors = in_thread(lambda: player.write(noise(2 * FULL)))
    wait_until_full(player, writer)
    player.abort()
    assert ended(writer)
    assert [str(error) for error in errors] == ["the player is closed; nothing more can be played"]
    assert slow.stream.events == ["start", "abort", "close"]
    assert not slow.stream.ask(100).any()  # samples that waited are not played


def test_leaving_by_an_exception_stops_at_once(slow: FakeLibrary) -> None:
    def play_and_fail() -> None:
        with Player() as player:
            player.write(noise(100))
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        play_and_fail()
    assert slow.stream.events == ["start", "abort", "close"]


def test_ctrl_c_while_a_write_waits(device: FakeLibrary) -> None:
    device.ctrl_c_after = 2400
    with pytest.raises(KeyboardInterrupt), Player() as player:
        player.write(noise(10 * FULL))
    heard = len(device.stream.frames)
    assert 2400 <= heard < 2400 + 256
    assert abs(player.samples_written - heard - FULL) <= 480
    assert device.stream.events == ["start", "abort", "close"]


def test_closing_and_aborting_again_is_no_error(device: FakeLibrary) -> None:
    player = Player()
    player.write(noise(10))
    player.close()
    player.close()
    player.abort()
    assert device.stream.events == ["start", "finished", "abort", "close"]
    with pytest.raises(AudioError, match="the player is closed"):
        player.write([])


def test_a_player_that_is_dropped_lets_go_of_the_device(slow: FakeLibrary) -> None:
    player = Player()
    player.write(noise(100))
    del player
    gc.collect()
    assert slow.stream.events == ["start", "abort", "close"]


# ---------------------------------------------------------------- what cannot be played


def test_samples_that_cannot_be_used(device: FakeLibrary) -> None:
    with Player() as player:
        with pytest.raises(AudioError, match="samples holds NaN"):
            player.write([float("nan")])
        with pytest.raises(AudioError, match=r"samples has shape \(2, 9\)"):
            player.write(np.zeros((2, 9)))
        player.write(noise(9))
    np.testing.assert_array_equal(device.stream.heard, noise(9))


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(AudioError, match=r"pip install 'chattts-velocity\[play\]'"):
        Player()


def test_without_portaudio(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_portaudio(monkeypatch)
    with pytest.raises(AudioError, match=r"libportaudio2 \(PortAudio library not found\)"):
        Player()


def test_without_a_device(device: FakeLibrary) -> None:
    device.has_device = False
    with pytest.raises(AudioError, match=r"no audio output device was found \(Error querying"):
        Player()
    with pytest.raises(AudioError, match=r"'Speaker' cannot be found .*none is there"):
        Player("Speaker")


def test_a_device_that_is_not_there(device: FakeLibrary) -> None:
    with pytest.raises(AudioError, match=r"'Headphones' cannot be found .*use one of: Speaker$"):
        find_sound_device("Headphones")


def test_a_device_that_takes_nothing(device: FakeLibrary) -> None:
    device.takes = set()
    with pytest.raises(AudioError, match=r"Speaker cannot play \(Invalid sample rate\)"):
        Player()
    assert device.streams == []


def test_a_device_that_cannot_be_opened(
    device: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PortAudioError("Device unavailable")

    monkeypatch.setattr(device, "OutputStream", refuse)
    with pytest.raises(AudioError, match=r"Speaker cannot be opened \(Device unavailable\)"):
        Player()


def test_a_device_that_does_not_start_is_let_go(device: FakeLibrary) -> None:
    device.error_at_start = PortAudioError("Unanticipated host error")
    with pytest.raises(AudioError, match=r"Speaker cannot be opened \(Unanticipated"):
        Player()
    device.error_at_start = None
    gc.collect()
    assert device.stream.events == ["start", "abort", "close"]


def test_a_device_that_is_pulled_out(slow: FakeLibrary) -> None:
    player = Player()
    writer, errors = in_thread(lambda: player.write(noise(2 * FULL)))
    wait_until_full(player, writer)
    slow.stream.fail()
    assert ended(writer)
    assert [str(error) for error in errors] == ["the sound device Speaker has stopped playing"]
    with pytest.raises(AudioError, match="has stopped playing"):
        player.close()
    assert slow.stream.events == ["start", "finished", "abort", "close"]


def test_a_device_that_asks_for_nothing(slow: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playback, "_PATIENCE_SECONDS", 0.01)
    with pytest.raises(AudioError, match="Speaker accepts no more samples"), Player() as player:
        player.write(noise(2 * FULL))
    assert player.samples_written == FULL
    player = Player()
    player.write(noise(10))
    with pytest.raises(AudioError, match="Speaker accepts no more samples"):
        player.close()
    assert [stream.events for stream in slow.streams] == [["start", "abort", "close"]] * 2
