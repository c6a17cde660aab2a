"""The parent's side of a match: it draws the batches, the order and what is looked at, and keeps the time. Imports no torch."""

from __future__ import annotations

import math
import os
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from phasewise.judge.ask import PlayerFailed, ask, ask_referee, choose_device, receive, start
from phasewise.judge.memory import make_file, plan_memory, reopen_to_read
from phasewise.judge.verdict import Judgement, Look, Refresh, Round, Set, Timing, conclude
from phasewise.measure.compare import name_function
from phasewise.workers.process import Process

BASE, CANDIDATE, CONTROL = "base", "candidate", "control"
PLAYERS = (BASE, CANDIDATE, CONTROL)
# batches in the ring, and seeds of which the result is known
ENTRIES = 4
POOL = 4
# of all blocks of a set, so many of each player are looked at: which, is drawn before and told to nobody
LOOKS = 2
# after so many rounds all entries of the ring but one get other contents
REFRESH_ROUNDS = 4
# pairs of refreshes with new and with the same contents, once a set
REFRESH_PAIRS = 8
# seconds of a block, and of a warm-up
BLOCK_S = 0.02
WARM_S = 0.3
LONG_STEP_S = 0.2
# block lengths vary by this much, so that no step knows that it is the last
JITTER = 0.1
SEEDS = 2**31


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How long a match goes."""

    sets: int = 3
    rounds: int = 12
    timeout_s: float = 300.0


@dataclass
class Match:
    """A match under way."""

    rules: Rules
    rng: random.Random
    referee: Process
    # seeds whose results the referee knows
    pool: Sequence[int]
    # a descriptor of the batches that can't write
    batches: int
    # descriptors of each player's results, to write
    results: Mapping[str, int]
    opening: Mapping[str, Any]
    targets: Mapping[str, str]
    players: dict[str, Process] = field(default_factory=dict)
    # seed in each entry
    ring: list[int] = field(default_factory=list)


def judge(
    base: str | Callable[..., Any],
    candidate: str | Callable[..., Any],
    *,
    device: str = "auto",
    tier: str = "moderate",
    rules: Rules | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Judgement:
    """Whether `candidate` gives what `base` gives, and how much faster.

    Both are named "file.py:function" or "pkg.module:function" and are called with what `make_inputs(seed)` or `get_inputs()` of the base's
    module gives. Results are held against the base in float64, on batches that are drawn; a candidate that is wrong gets no ratio.

    :raises UserError: a function or its inputs don't exist or are of another kind, or the base itself fails
    """
    rules = rules or Rules()
    targets = {BASE: name_function(base), CANDIDATE: name_function(candidate), CONTROL: name_function(base)}
    rng = random.Random(secrets.randbits(64))
    pool = [rng.randrange(SEEDS) for _ in range(POOL)]
    batches, results = make_file("batches"), {player: make_file(player) for player in PLAYERS}
    referee = start("phasewise.judge.referee", [batches, *results.values()])
    try:
        told = ask_referee(referee, "open", rules.timeout_s, base=targets[BASE], seeds=pool, tier=tier)
        opening = {
            "device": choose_device(device), "entries": ENTRIES, "inputs": told["inputs"], "outputs": told["outputs"],
            "sizes": told["sizes"], "plain": told["plain"],
        }  # fmt: skip
        os.ftruncate(batches, ENTRIES * plan_memory(told["inputs"], told["sizes"]).bytes)
        for descriptor in results.values():
            os.ftruncate(descriptor, plan_memory(told["outputs"], told["sizes"]).bytes)
        ask(referee, "map", rules.timeout_s, batches=batches, results=results)
        match = Match(
            rules=rules, rng=rng, referee=referee, pool=pool, batches=reopen_to_read(batches), results=results,
            opening=opening, targets=targets,
        )  # fmt: skip
        sets: list[Set] = []
        for number in range(rules.sets):
            progress(f"set {number + 1} of {rules.sets}")
            found = _play_set(match)
            sets.append(found)
            if found.failure is not None or any(look.wrong for look in found.looks if look.player == CANDIDATE):
                break
        return conclude(sets, targets, opening["device"], told)
    finally:
        referee.close()
        for descriptor in (batches, *results.values()):
            os.close(descriptor)


def _play_set(match: Match) -> Set:
    """Fresh processes: open, look, warm up, time in rounds, refresh."""
    looks: list[Look] = []
    rounds: list[Round] = []
    refreshes: list[Refresh] = []
    steps: dict[str, int] = {}
    try:
        _fill(match, list(match.pool))
        for player in PLAYERS:
            match.players[player] = _open(match, player)
        for player in PLAYERS:
            for entry in range(ENTRIES):
                _run(match, player, entry, 1)
                looks.append(_look(match, player, entry))
        if not any(look.wrong for look in looks):
            steps = {player: _warm_up(match, player) for player in PLAYERS}
            rounds, more = _play_rounds(match, steps)
            looks += more
            refreshes = _compare_refreshes(match)
    except PlayerFailed as failed:
        return Set(
            looks=tuple(looks),
            rounds=tuple(rounds),
            refreshes=(),
            steps=steps,
            player=failed.player,
            failure=failed.failure,
        )
    finally:
        for process in match.players.values():
            process.close()
        match.players.clear()
    return Set(looks=tuple(looks), rounds=tuple(rounds), refreshes=tuple(refreshes), steps=steps)


def _play_rounds(match: Match, steps: Mapping[str, int]) -> tuple[list[Round], list[Look]]:
    rng = match.rng
    looked_at = {player: set(rng.sample(range(match.rules.rounds), LOOKS)) for player in PLAYERS}
    rounds: list[Round] = []
    looks: list[Look] = []
    for number in range(match.rules.rounds):
        if number and number % REFRESH_ROUNDS == 0:
            kept = rng.randrange(ENTRIES)
            _refresh(match, {entry: _draw(match) for entry in range(ENTRIES) if entry != kept})
        timings = []
        for player in rng.sample(PLAYERS, len(PLAYERS)):
            count = max(1, round(steps[player] * rng.uniform(1 - JITTER, 1 + JITTER)))
            first = rng.randrange(ENTRIES)
            timings.append(Timing(player=player, steps=count, **_run(match, player, first, count)))
            if number in looked_at[player]:
                looks.append(_look(match, player, (first + count - 1) % ENTRIES))
        rounds.append(Round(timings=tuple(timings)))
    return rounds, looks


def _compare_refreshes(match: Match) -> list[Refresh]:
    """One pass over the ring with new contents, and one with the same contents written again: a candidate that remembers is slower
    on new ones.
    """
    found = []
    for _ in range(REFRESH_PAIRS):
        times = {}
        for kind in match.rng.sample(("fresh", "sham"), 2):
            fresh = {entry: match.rng.randrange(SEEDS) for entry in range(ENTRIES)}
            _refresh(match, fresh if kind == "fresh" else dict(enumerate(match.ring)))
            times[kind] = _run(match, CANDIDATE, match.rng.randrange(ENTRIES), ENTRIES)["parent_s"]
        found.append(Refresh(fresh_s=times["fresh"], sham_s=times["sham"]))
    return found


def _look(match: Match, player: str, entry: int) -> Look:
    """Hold what the player's last step gave, on the batch in `entry`, against what is right."""
    said = _ask_player(match, player, "deliver")
    if said:
        return Look(player=player, known=False, wrong=said)
    against = None
    if match.ring[entry] not in match.pool:
        # nobody knows the result yet: the base runs the same batch
        against = BASE
        if player == BASE:
            return Look(player=player, known=False)
        _run(match, BASE, entry, 1)
        if said := _ask_player(match, BASE, "deliver"):
            return Look(player=BASE, known=False, wrong=said)
    return Look(
        player=player,
        **ask(match.referee, "compare", match.rules.timeout_s, player=player, entry=entry, against=against),
    )


def _warm_up(match: Match, player: str) -> int:
    """Step until the times no longer fall; steps of a block."""
    start, times = time.perf_counter(), [_run(match, player, 0, 1)["parent_s"] for _ in range(3)]
    if times[-1] > LONG_STEP_S:
        return 1
    # the parent's time of one step is mostly the way there and back: lengths come from several blocks
    count, blocks = 1, list[float]()
    while time.perf_counter() - start < WARM_S or len(blocks) < 3:
        wall = _run(match, player, 0, count)["parent_s"]
        if wall < 0.9 * BLOCK_S:
            count = math.ceil(count * min(10.0, BLOCK_S / wall) * 1.05)
            blocks.clear()
        else:
            blocks.append(wall / count)
    return max(1, math.ceil(BLOCK_S / median(blocks)))


def _run(match: Match, player: str, first: int, steps: int) -> dict[str, float]:
    """Seconds of `steps` steps, by our clock and by the player's."""
    process = match.players[player]
    _ask_player(match, player, "settle")
    start = time.perf_counter()
    process.send("run", first=first, steps=steps)
    own = _receive(match, player, "run")
    return {"parent_s": time.perf_counter() - start, "own_s": own}


def _fill(match: Match, seeds: list[int]) -> None:
    match.ring = seeds
    ask(match.referee, "write", match.rules.timeout_s, entries={str(entry): seed for entry, seed in enumerate(seeds)})


def _refresh(match: Match, entries: Mapping[int, int]) -> None:
    """Give entries of the ring the batches of these seeds, and every player the same."""
    for entry, seed in entries.items():
        match.ring[entry] = seed
    ask(match.referee, "write", match.rules.timeout_s, entries={str(entry): seed for entry, seed in entries.items()})
    for player in match.players:
        _ask_player(match, player, "refresh", entries=list(entries))


def _draw(match: Match) -> int:
    """Half of the batches have a known result."""
    return match.rng.choice(list(match.pool)) if match.rng.random() < 0.5 else match.rng.randrange(SEEDS)


def _open(match: Match, player: str) -> Process:
    process = start("phasewise.judge.player", [match.batches, match.results[player]])
    match.players[player] = process
    process.send(
        "open", target=match.targets[player], batches=match.batches, results=match.results[player], **match.opening
    )
    _receive(match, player, "open")
    return process


def _ask_player(match: Match, player: str, command: str, **arguments: Any) -> Any:
    match.players[player].send(command, **arguments)
    return _receive(match, player, command)


def _receive(match: Match, player: str, what: str) -> Any:
    return receive(match.players[player], player, what, match.rules.timeout_s)
