"""What stands around a request: the plain frame for base models, or a tokenizer's chat template.

Both prompts end with <think>, so that a completion starts inside the thought.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from selfplay.errors import ConfigError

Frame: TypeAlias = Callable[[str], str]
"""Makes the prompt of a request."""
_FORM = "First reason inside <think> </think>, then give the answer inside <answer> </answer>."


def plain_frame(request: str) -> str:
    """A conversation written out, which a model without chat training goes on with."""
    return (
        "A user asks and an assistant answers. The assistant first reasons inside <think> </think> "
        f"and then gives its answer inside <answer> </answer>.\nUser: {request}\n"
        "Assistant: <think>"
    )


def chat_frame(tokenizer: Any, base: str) -> Frame:
    """The frame of a model's own chat template.

    tokenizer: of transformers; base: what errors call the model. Raises ConfigError at once where
    there is no template, or one that fails or loses the request.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise ConfigError(
            f"template is 'azr-chat', and the tokenizer of {base} has no chat template; use "
            "template=azr, the plain frame for base models"
        )

    def frame(request: str) -> str:
        turns = [{"role": "user", "content": f"{request}\n{_FORM}"}]
        try:
            text: str = tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # templates are programs and raise what they like
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                f"the chat template of {base} refuses a prompt: {reason}; use template=azr, or "
                "mend chat_template in the model's folder"
            ) from None
        # Templates of reasoning models open the thought themselves.
        return text if text.rstrip().endswith("<think>") else f"{text}<think>"

    if "What is 2 + 2?" not in frame("What is 2 + 2?"):
        raise ConfigError(
            f"the chat template of {base} leaves the user's text out; use template=azr, or mend "
            "chat_template in the model's folder"
        )
    return frame
