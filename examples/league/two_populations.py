"""Teachers set numbers of some difficulty, students reach them by a skill that grows."""

import random

from league import League, LeagueConfig, Outcome

rng = random.Random(0)
teachers, students = [f"t{i}" for i in range(4)], [f"s{i}" for i in range(4)]
level = {name: 2.0 + 0.5 * int(name[1]) for name in teachers + students}
level |= {"base-t": 2.75, "base-s": 2.75}  # these two never learn, and are in no league


def play(teacher: str, student: str) -> Outcome:
    tasks = [rng.gauss(level[teacher], 0.7) for _ in range(16)]
    valid = [task for task in tasks if task > 1]  # an easier number is not a task
    solved = [sum(rng.gauss(level[student], 0.7) > task for _ in range(8)) for task in valid]
    return Outcome(len(tasks), len(valid), 8 * len(valid), sum(solved), solved.count(0))


def solve_rate(teachers: list[str], students: list[str]) -> float:
    outcomes = [play(teacher, student) for teacher in teachers for student in students]
    return sum(o.solved for o in outcomes) / sum(o.attempts for o in outcomes)


config = LeagueConfig(seed=1, tau=0.25)
with League("run/league", teachers, students, config) as league:
    for turn in range(65):
        if turn % 64 == 0:
            share = solve_rate(["base-t"], league.members("student"))
            print(f"round {turn}: students solve {share:.0%} of the tasks of base-t,")
            share = solve_rate(league.members("teacher"), ["base-s"])
            print(f"  and base-s {share:.0%} of the teachers' tasks")
        for pair in league.pair(turn):
            league.record(pair, play(pair.teacher, pair.student))
        for name in league.members("student"):
            level[name] += 0.02  # practice
        for role in ("teacher", "student") if turn % 10 == 9 else ():
            for weakest in league.select(role, 1):
                best, child = league.leaderboard(role)[0].member, f"{role[0]}{turn}"
                league.replace(weakest, child, [best], operator="mutate", reason="the weakest")
                level[child] = level[best] + rng.gauss(0.0, 0.3)
    for role in ("teacher", "student"):
        print(role, [f"{row.member} {row.mu:.1f}" for row in league.leaderboard(role)])
