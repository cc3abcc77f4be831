"""What the learner keeps in memory, part by part; all sizes in bytes."""

from selfplay.learning.output_layer import chunk_tokens
from selfplay.learning.settings import LearnerConfig
from selfplay.planning.architecture import Architecture
from selfplay.planning.workload import Rows, Workload

FLOAT32 = 4
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_WHOLE_TABLES, _CHUNK_TABLES = 3, 4
"""Float32 tables [tokens, vocabulary] that live at a time: in the backward pass of a log-softmax,
its result and the gradient before it and behind it; of one chunk of several, its logits as well."""


def activations(model: Architecture, learner: LearnerConfig, dtype: str, tokens: int) -> float:
    """What one layer keeps of so many tokens for the backward pass.

    Per token, in the base's dtype: the normalised input of attention and of the feed-forward part,
    and the attention's result, which are inputs of adapters; queries, keys, values; in the
    feed-forward part the gate before and after its activation, the other factor, and their product;
    each adapted layer's r-wide A x. In float32: the residual stream before both norms, one
    log-sum a head, and two scales of the norms.
    """
    r = model.per_layer(learner.target_modules) * learner.r
    wide = 2 * model.hidden + 2 * model.query + 2 * model.key + 4 * model.inner + r
    exact = 2 * model.hidden + model.heads + 2
    return tokens * (BYTES[dtype] * wide + FLOAT32 * exact)


def output_layer(model: Architecture, learner: LearnerConfig, completion_tokens: int) -> float:
    """What log-probabilities and their gradient take beside the activations."""
    chunk = learner.logits_chunk_tokens or chunk_tokens(model.vocabulary)
    if completion_tokens <= chunk:
        return FLOAT32 * completion_tokens * (_WHOLE_TABLES * model.vocabulary + model.hidden)
    # Chunks keep the gradient of each token's hidden state instead of its logits.
    kept = 2 * completion_tokens * model.hidden
    return FLOAT32 * (_CHUNK_TABLES * chunk * model.vocabulary + kept)


def micro_batch(rows: Rows, budget: int) -> tuple[int, int]:
    """Return tokens, and completion tokens among them, of the largest micro-batch of such rows."""
    count = min(rows.count, max(1, budget // rows.longest))
    return count * rows.longest, count * rows.limit


def learner_parts(
    model: Architecture, learner: LearnerConfig, dtype: str, step: Workload
) -> dict[str, float]:
    """Return what an update takes beside the base and the adapters, at its largest micro-batch."""
    adapter = FLOAT32 * model.adapter_parameters(learner.r, learner.target_modules)
    members = step.members
    # The gradients of each group of a batch are kept until their spread is known.
    groups = learner.noise_groups * (2 if members == 1 else 1)
    kept = adapter * members * (groups + 1 if groups else 1)
    scratch = 3 * adapter if groups else 2 * adapter
    largest = {"activations": 0.0, "output layer": 0.0}
    for rows in step.parts:
        tokens, answered = micro_batch(rows, learner.micro_batch_tokens)
        layer = activations(model, learner, dtype, tokens)
        held = model.layers * layer
        # Gradients on their way back through the widest part of a layer.
        moving: float = 2 * tokens * model.inner * BYTES[dtype]
        if learner.gradient_checkpointing:
            # The input of every layer stays, and the result of its attention; the rest comes back
            # for one layer at a time, when the tables of the output layer are gone.
            input_and_attention = (model.hidden + model.query) * BYTES[dtype]
            held = model.layers * tokens * (input_and_attention + FLOAT32 * model.heads)
            moving += layer
        output = output_layer(model, learner, answered)
        found = {"activations": held + max(0.0, moving - output), "output layer": output}
        if sum(found.values()) > sum(largest.values()):
            largest = found
    stacked = adapter / FLOAT32 * BYTES[dtype] * members
    if learner.gradient_checkpointing:
        stacked /= model.layers
    return {
        "gradients": kept + scratch,
        "optimiser": 0.0 if learner.optimizer_offload else 2 * adapter * members,
        "adapters stacked for a pass": stacked,
        **largest,
    }
