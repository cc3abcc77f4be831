"""What goes between processes comes back as it was."""

import pickle

import numpy as np

from code_verifier import Proposal
from evals.engine.rollout import Rollout
from selfplay.learning.batch import TrainingSample
from selfplay.population.writing import Written
from selfplay.workers.token_rows import TokenRows
from selfplay.workers.transport import pack_samples, pack_written, read_samples, read_written

PROMPT = (5, 1, 2)


def sample(ids, prompt=PROMPT, **changes):
    logprobs = tuple(-0.1 - token / 3 for token in ids)
    return TrainingSample("t0", prompt, ids, logprobs, 0.1 + 0.2, **changes)


def test_samples_are_the_same_objects_of_python():
    samples = [
        sample((7, 8, 9), truncated=True, role="propose", task="1-t0"),
        sample(()),
        sample((3,), prompt=(2**31 - 1,)),
    ]
    again = read_samples(pickle.loads(pickle.dumps(pack_samples(samples))))
    assert again == samples
    assert all(type(number) is float for s in again for number in s.logprobs)
    assert again[0].prompt_ids is again[1].prompt_ids
    assert read_samples(pack_samples([])) == []


def test_a_prompt_of_many_samples_is_held_once():
    rows = TokenRows.of([sample((1,)), sample((2,)), sample((3,), prompt=(4, 4))])
    assert (rows.prompt_ids.tolist(), rows.prompt_of) == ([5, 1, 2, 4, 4], [0, 0, 1])


def test_proposals_come_back_by_number_and_without_trees():
    program = "def f(a):\n    return a"
    parsed = Proposal("code_o", program, "1")
    assert parsed.parsed.text == program
    read = [
        Written(Rollout("t0", PROMPT, (7, 8), (-0.5, -0.25), "stop"), "text", parsed, parsed),
        Written(Rollout(None, PROMPT, (), (), "length"), "", None, None),
    ]
    packed = pack_written([(1, read[1]), (0, read[0])])
    found = list(read_written(packed, Written))
    assert "parsed" not in vars(found[0].proposal)
    for one, other in zip(found, read, strict=True):
        assert (one.text, one.proposal, one.bare) == (other.text, other.proposal, other.bare)
        for name in ("adapter", "finish_reason"):
            assert getattr(one.rollout, name) == getattr(other.rollout, name)
        for name in ("prompt_ids", "completion_ids", "logprobs"):
            assert tuple(np.asarray(getattr(one.rollout, name)).tolist()) == getattr(
                other.rollout, name
            )
