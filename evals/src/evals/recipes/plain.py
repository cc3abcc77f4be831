"""The recipe of a benchmark whose prompts are finished texts."""

from evals.recipes.recipe import Recipe, Template


def plain(benchmark: str, max_tokens: int) -> Recipe:
    """The field `prompt` of a question is the prompt, as it is. max_tokens: of a response."""
    template = Template(
        text="{prompt}", mode="completion", max_tokens=max_tokens, source="the benchmark"
    )
    return Recipe("plain", "the benchmark's own texts, as they are", {benchmark: template})
