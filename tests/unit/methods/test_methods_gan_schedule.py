"""The schedule of critic steps: fixed, or rising when the critic falls behind."""

from __future__ import annotations

import pytest

from simulacra.errors import SettingError
from simulacra.methods.gan_schedule import Pace, Schedule


def test_a_single_number_is_a_fixed_schedule() -> None:
    pace = Pace(Schedule(critic_steps=(3,), grace=0, threshold=1.0))
    turns = []
    for _ in range(9):
        turns.append(pace.critic_stepped())
        if turns[-1]:
            pace.generator_stepped(0.0)
    assert turns == [False, False, True] * 3
    assert pace.critic_steps == 3


def test_the_pace_rises_when_accuracy_is_low_and_the_grace_period_is_over() -> None:
    pace = Pace(Schedule(critic_steps=(1, 5, 10), threshold=0.6, smoothing=0.5, grace=4))
    seen = []
    for accuracy in [0.9, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]:
        pace.generator_stepped(accuracy)
        seen.append(pace.critic_steps)
    assert seen == [1, 1, 1, 5, 5, 5, 5, 10, 10, 10]


def test_the_average_starts_with_the_first_accuracy_and_a_good_critic_keeps_its_pace() -> None:
    pace = Pace(Schedule(smoothing=0.9, grace=1))
    pace.generator_stepped(0.8)
    assert pace.accuracy == 0.8
    pace.generator_stepped(0.7)
    assert pace.accuracy == pytest.approx(0.9 * 0.8 + 0.1 * 0.7)
    assert pace.critic_steps == 1


def test_a_pace_goes_on_from_its_state() -> None:
    schedule = Schedule(critic_steps=(1, 2), grace=1, threshold=1.0)
    pace, other = Pace(schedule), Pace(schedule)
    other.load(pace.state())
    assert other.accuracy is None
    pace.generator_stepped(0.25)
    pace.critic_stepped()
    other.load(pace.state())
    assert (other.level, other.since_generator, other.accuracy) == (1, 1, 0.25)


@pytest.mark.parametrize(
    "settings",
    [{"critic_steps": ()}, {"critic_steps": (0,)}, {"threshold": 1.5}, {"smoothing": 1.0}, {"grace": -1}],
)
def test_impossible_schedules_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(SettingError, match="schedule"):
        Schedule(**settings)
