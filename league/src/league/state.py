"""State of a league: its members, pairs, outcomes, meetings and replacements."""

from dataclasses import dataclass, field

from league.config import LeagueConfig
from league.errors import LeagueError, UnknownMember, check_whole, suggestion
from league.ratings import Rating

TEACHER = "teacher"
STUDENT = "student"
ROLES = (TEACHER, STUDENT)
MEMBER = "member"
"""The role of all in a league of one population, where members play each other."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one student on one teacher's batch of tasks.

    A batch without a valid task is legal; a match without tasks is stored and not rated. Raises
    LeagueError when the numbers contradict each other.

        >>> Outcome(tasks=8, valid=6, attempts=24, solved=6, unsolved=2).student_score
        0.4375

    - tasks: proposed by the teacher.
    - valid: of these, accepted by the verifier.
    - attempts: the student's rollouts on valid tasks.
    - solved: right rollouts.
    - unsolved: valid tasks that no rollout solved.
    - infra_errors: further tasks, lost to infrastructure (a crashed verifier); they are shown, but
      counted in no other number and never rated.
    """

    tasks: int
    valid: int
    attempts: int
    solved: int
    unsolved: int
    infra_errors: int = 0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            check_whole(name, getattr(self, name))
        consistent = not self.unsolved
        if self.attempts:
            consistent = self.valid > 0 and (self.solved > 0) == (self.unsolved < self.valid)
        parts = (self.valid, self.tasks), (self.solved, self.attempts), (self.unsolved, self.valid)
        if not consistent or any(part > total for part, total in parts):
            raise LeagueError(
                f"{self} contradicts itself; expected valid <= tasks, solved <= attempts, unsolved "
                "<= valid, attempts on valid tasks alone, and all tasks unsolved exactly if they "
                "were attempted and no rollout solved one"
            )

    @property
    def invalid(self) -> int:
        """Tasks that the verifier refused."""
        return self.tasks - self.valid

    @property
    def counted(self) -> int:
        """Tasks with a winner: the invalid ones, and the valid ones if they were attempted."""
        return self.tasks if self.attempts else self.invalid

    @property
    def student_score(self) -> float:
        """The student's share of the counted tasks, in [0, 1]; 0.5 when nothing counts.

        An invalid task is lost by its teacher: left out, a broken teacher with a few impossible
        tasks would rank first.
        """
        if not self.counted:
            return 0.5
        won = self.valid * self.solved / self.attempts if self.attempts else 0.0
        return (self.invalid + won) / self.counted


@dataclass(frozen=True, slots=True)
class Pair:
    """One match to be played; `predicted` is the student's expected share of the tasks."""

    id: str
    round: int
    teacher: str
    student: str
    predicted: float


@dataclass(frozen=True, slots=True)
class Meeting:
    """Sums over matches, such as those of one teacher with one student, and a fading history."""

    matches: int = 0
    tasks: int = 0
    valid: int = 0
    attempts: int = 0
    solved: int = 0
    unsolved: int = 0
    infra_errors: int = 0
    tried: int = 0
    """Valid tasks with an attempt."""
    counted: int = 0
    won: float = 0.0
    """The student's share of the counted tasks."""
    reward_millionths: int = 0
    """The sum over the teacher's tasks."""
    past_tasks: float = 0.0
    """Counted tasks, fading with every new match."""
    past_won: float = 0.0
    """The student's share of them."""

    def __add__(self, other: "Meeting") -> "Meeting":
        return Meeting(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def solve_rate(self) -> float | None:
        """Right rollouts on valid tasks; None without an attempt."""
        return self.solved / self.attempts if self.attempts else None

    @property
    def reward(self) -> float | None:
        """The teacher's mean reward per task; None if none."""
        tasks = self.tasks - self.valid + self.tried
        return self.reward_millionths / tasks / 1e6 if tasks else None


@dataclass(frozen=True, slots=True)
class Replacement:
    """One member's end and its child's beginning.

    - rounds: number of rounds that had been paired.
    - offset: change of the role's mean mu, which is not progress; subtract it before you compare
      ratings across generations.
    """

    member: str
    child: str
    parents: tuple[str, ...]
    weights: tuple[float, ...]
    operator: str
    reason: str
    rounds: int
    offset: float


@dataclass(frozen=True, slots=True)
class Member:
    """One member, alive or replaced."""

    name: str
    role: str
    slot: int
    """Its place within the role, from 0, inherited at replacement."""
    born: int
    """Number of rounds that had been paired when it came."""
    rating: Rating
    alive: bool = True
    """Whether it holds its slot."""
    parents: tuple[str, ...] = ()
    operator: str = ""
    paired: int = 0
    """Matches of its slot, those of its predecessors included."""


@dataclass
class State:
    """The state after all events; only `events.apply` changes it, in place.

    - members: by name, in order of arrival.
    - slots: the names of the living, by role (teacher and student, or member) and slot.
    - pairs, outcomes: by pair id.
    - rounds: the pair ids of each round, in pairing order.
    - meetings: by (teacher, student).
    - events: number of events that have been applied.
    """

    config: LeagueConfig
    members: dict[str, Member] = field(default_factory=dict)
    slots: dict[str, list[str]] = field(default_factory=dict)
    pairs: dict[str, Pair] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    rounds: dict[int, list[str]] = field(default_factory=dict)
    meetings: dict[tuple[str, str], Meeting] = field(default_factory=dict)
    replacements: list[Replacement] = field(default_factory=list)
    events: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of rounds, matches and replacements."""
        sizes = len(self.rounds), len(self.outcomes), len(self.replacements)
        return dict(zip(("rounds", "matches", "replacements"), sizes, strict=True))

    @property
    def played(self) -> str:
        """The numbers of rounds, matches and replacements, in words."""
        text = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        return f"{text}, {self.not_judged}" if self.not_judged else text

    @property
    def not_judged(self) -> str:
        """`3 tasks not judged`, which no rate counts; '' for none."""
        count = sum(outcome.infra_errors for outcome in self.outcomes.values())
        return f"{count} task{'s' * (count != 1)} not judged" if count else ""

    def living(self, role: str) -> list[Member]:
        """Return the living members of a role, by slot; LeagueError if there is no such role."""
        if role not in self.slots:
            raise LeagueError(f"role is {role!r}; expected {' or '.join(map(repr, self.slots))}")
        return [self.members[name] for name in self.slots[role]]

    @property
    def one_population(self) -> bool:
        """Whether members play members of the same population."""
        return MEMBER in self.slots

    def sides(self) -> tuple[list[Member], list[Member]]:
        """Return the members that can be teachers, and those that can be students; in one
        population they are the same."""
        roles = (MEMBER, MEMBER) if self.one_population else (TEACHER, STUDENT)
        return self.living(roles[0]), self.living(roles[1])

    def member(self, name: str) -> Member:
        """Return the member of that name, alive or not; UnknownMember if there never was one."""
        if name not in self.members:
            alive = [name for names in self.slots.values() for name in names]
            names = ", ".join(alive[:20]) + (" and more" if len(alive) > 20 else "")
            hint = suggestion(str(name), self.members)
            raise UnknownMember(f"no member is named {name!r}; alive are {names}{hint}")
        return self.members[name]

    def meeting(self, teacher: str, student: str) -> Meeting:
        """Return the sums over the matches of two members."""
        return self.meetings.get((teacher, student), Meeting())

    def results(self, member: Member) -> tuple[Meeting, Meeting]:
        """Return the sums over a member's matches as teacher, and as student; with two roles, both
        are over all its matches."""
        sides = [
            sum((m for names, m in self.meetings.items() if names[side] == member.name), Meeting())
            for side in (0, 1)
        ]
        if member.role != MEMBER:
            sides = [sides[0] + sides[1]] * 2
        return sides[0], sides[1]
