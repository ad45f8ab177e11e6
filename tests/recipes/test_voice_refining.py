"""Examples for the refine pass, and the draws of all the recipe's choices."""

from __future__ import annotations

from recipes.voice.counter_rng import CounterRng
from recipes.voice.refining import RefinePair, RefinePairs, refine
from recipes.voice.texts import sentences


def test_refine_pairs_keep_the_words_and_do_as_asked() -> None:
    pairs = RefinePairs(9, sentences("en"))
    for pair in (pairs[index] for index in range(300)):
        assert pair.refined.count("[laugh]") <= pair.laugh
        if not pair.oral:
            plain = pair.refined.replace(" [uv_break]", "").replace(" [laugh]", "")
            assert plain == pair.text
        if not pair.pause:
            assert "[uv_break]" not in pair.refined
        kept = iter(pair.refined.split())
        assert all(word in kept for word in pair.text.split())
    assert RefinePair("a.", 1, 2, 3, "a.").prompt == "[oral_1][laugh_2][break_3]"


def test_refining_grows_with_its_degrees() -> None:
    text = "we met a friend at the station, and then we went to the market to buy some bread."
    breaks = [refine(text, 0, 0, n, CounterRng(1, n)).count("[uv_break]") for n in range(8)]
    fillers = [len(refine(text, n, 0, 0, CounterRng(1, n)).split(",")) for n in range(10)]
    assert breaks == sorted(breaks)
    assert (breaks[0], breaks[7]) == (0, 6)
    assert fillers == sorted(fillers)
    assert fillers[9] - fillers[0] == 6
    assert [refine(text, 0, n, 0, CounterRng(1, n)).count("[laugh]") for n in range(3)] == [0, 1, 2]
    assert "station, [uv_break] and" in refine(text, 0, 0, 2, CounterRng(1, 1))


def test_dice_depend_on_seed_and_place_alone() -> None:
    ahead = [CounterRng(3, 1000).fraction() for _ in range(2)]
    assert ahead[0] == ahead[1]
    assert (
        len({CounterRng(seed, place).fraction() for seed in range(20) for place in range(20)})
        == 400
    )
    rng = CounterRng(1, 2)
    assert {rng.integer(3, 5) for _ in range(200)} == {3, 4, 5}
    assert rng.sample(range(5), 9) == [0, 1, 2, 3, 4]
    assert all(2.0 <= rng.between(2, 3) < 3.0 for _ in range(200))
