"""What is asked of the bench's figures is asked as ratios of one run: made-up figures get the verdicts that the ratios deserve."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bench.figures import LIMIT, Line, Taken, Target, Verdict
from bench.lines import HOLDFAST, Spec, lines, specs
from bench.terms import Sizes

SPECS = specs(Sizes())
OF_THIS_MACHINE = {key: spec for key, spec in SPECS.items() if any(target.of == LIMIT for target in spec.targets)}
AS_THEY_ARE = {key for key, spec in SPECS.items() if any(target.of == "" for target in spec.targets)}
A_LITTLE = 1.01
SLOWER = 1.6
"""The same commit, on another machine."""


def judged(cells: Mapping[str, Mapping[str, Taken]]) -> dict[str, Line]:
    """The lines of a run that took these figures, by key."""
    keys = [key for key in SPECS if key in cells]
    return dict(zip(keys, lines(Sizes(), cells), strict=True))


def at(spec: Spec, bound: str, *, worse: float = 1.0, machine: float = 1.0) -> dict[str, Taken]:
    """Figures that are exactly what every target of a line asks, `must` or `goal`, or so many times worse than that."""
    limit = 100.0 / machine if spec.more else 100.0 * machine
    off = 1 / worse if spec.more else worse
    over = [getattr(target, bound) for target in spec.targets if target.of in ("", LIMIT)]
    itself = [target for target in spec.targets if target.of == ""]
    ours = over[0] * off / spec.scale if itself else over[0] * off * limit if over else 100.0
    peers = {target.of: Taken((ours / getattr(target, bound),)) for target in spec.targets if target.of not in ("", LIMIT)}
    return {HOLDFAST: Taken((ours,), (limit,) if spec.limit else ()), **peers}


@pytest.mark.parametrize("machine", [1.0, SLOWER])
@pytest.mark.parametrize(
    "bound, worse, verdict", [("goal", 1.0, "goal"), ("goal", A_LITTLE, "must"), ("must", 1.0, "must"), ("must", A_LITTLE, "not yet")]
)
def test_a_ratio_is_judged_the_same_on_any_machine(bound: str, worse: float, verdict: Verdict, machine: float) -> None:
    found = judged({key: at(spec, bound, worse=worse, machine=machine) for key, spec in OF_THIS_MACHINE.items()})
    assert {key: line.verdict for key, line in found.items()} == dict.fromkeys(OF_THIS_MACHINE, verdict)


def test_only_memory_idle_cpu_and_what_a_sandbox_adds_are_asked_for_as_they_are() -> None:
    assert {SPECS[key].unit for key in AS_THEY_ARE} == {"KB", "MB", "ms", "points"}
    assert {key for key in AS_THEY_ARE if SPECS[key].unit == "ms"} == {"workers attempt"}


def test_a_line_without_a_target_has_no_verdict_until_it_is_broken() -> None:
    told = {key: spec for key, spec in SPECS.items() if not spec.targets}
    assert "HTTP invoke" in told
    for key, spec in told.items():
        assert spec.floor is not None
        good, bad = (spec.floor * 2, spec.floor / 2) if spec.more else (spec.floor / 2, spec.floor * 2)
        for figure, verdict in ((good, ""), (bad, "BROKEN")):
            taken = Taken((figure / spec.scale,), (1 / spec.scale,) if spec.limit else ())
            assert judged({key: {HOLDFAST: taken}})[key].verdict == verdict, key


def test_a_peer_that_measures_only_one_colour_is_compared_with_the_other_too() -> None:
    """Restate's W2 is beside our `def` handlers as well: three times as fast is asked there."""
    two = {"W2": {HOLDFAST: Taken((900.0,), (1000.0,)), "Restate": Taken((100.0,))}, "W2 def": {HOLDFAST: Taken((299.0,), (1000.0,))}}
    found = judged(two)
    assert found["W2 def"].better("Restate") == pytest.approx(2.99)
    assert (found["W2"].verdict, found["W2 def"].verdict) == ("goal", "not yet")
    without = judged({"W2 def": two["W2 def"]})["W2 def"]
    assert (without.better("Restate"), without.verdict) == (None, "must"), "what was not measured is not held against us"


def test_two_processes_are_compared_with_one_and_not_with_the_machine() -> None:
    spec = SPECS["W2 two"]
    assert (spec.limit, spec.raw) == ("one process", False)
    (target,) = spec.targets
    assert target == Target(of=LIMIT, must=target.must, goal=target.goal)
    assert target.must is not None
    assert target.must > 1, "two that are no faster than one are not worth having"
