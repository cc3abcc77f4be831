"""How far the sampler's probabilities were from the learner's, and when that is too far."""

from dataclasses import dataclass

from selfplay.report.reading.run_data import Run

LIMIT = 1e-3
"""KL divergence (nats a token) of sampler and learner above which they are said to drift apart.

The arithmetic of bfloat16 alone gives about 5e-5 and that of float32 1e-11 (vLLM on a CPU against
the learner): what is twenty times as much comes from something else, such as weights that did not
arrive or another distribution. Below it the truncated importance weights correct what there is.
"""


@dataclass(frozen=True, slots=True)
class Drift:
    """The largest divergence of a run, and where it was."""

    mismatch_kl: float
    """Mean over the tokens of that member in that step, nats."""
    member: str
    step: int
    truncated: float
    """Largest share of tokens, of any member in any step, whose importance weight was cut."""

    @property
    def too_far(self) -> bool:
        """Whether it is above the limit."""
        return self.mismatch_kl > LIMIT


def drift_of(run: Run) -> Drift | None:
    """Return the largest divergence; None where no step has trained anybody."""
    found = [
        (kl, name, step.step)
        for step in run.steps
        for name, member in step.members.items()
        if (kl := member.number("mismatch_kl")) is not None
    ]
    if not found:
        return None
    cut = [
        share
        for step in run.steps
        for member in step.members.values()
        if (share := member.number("importance_sampling_clip_ratio")) is not None
    ]
    kl, name, number = max(found)
    return Drift(kl, name, number, max(cut, default=0.0))


def drift_sentence(run: Run) -> str:
    """Return a sentence on sampler and learner; nothing where one module is both and agrees."""
    drift = drift_of(run)
    if drift is None or not (drift.too_far or run.config.get("engine") == "vllm"):
        return ""
    most = f"{drift.mismatch_kl:.1e} nats a token ({drift.member}, step {drift.step})"
    cut = f"at most {100 * drift.truncated:.2g} % of a member's importance weights truncated"
    if drift.too_far:
        return (
            f"Warning: sampler and learner drift apart: KL divergence {most}, expected below "
            f"{LIMIT:.0e}; {cut}."
        )
    return f"Sampler against learner: KL divergence at most {most}; {cut}."
