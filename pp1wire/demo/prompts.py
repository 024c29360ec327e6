"""What the demo's requests ask, and how what they answer is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pp1wire.demo.smollm2 import SmolLM2, TextStream

__all__ = ["SmolLM2Talk", "SyntheticTalk", "printable"]

# A request that comes to its end before its rounds are over goes on with the next question.
_QUESTIONS = (
    "Tell me a long story about a lighthouse keeper and a storm.",
    "Explain step by step how a sailing ship is built.",
    "Write a detailed guide to growing tomatoes on a balcony.",
    "Describe a day in the life of a medieval blacksmith.",
    "Explain how rivers shape the land, with examples.",
    "Write a long letter from an explorer to a friend at home.",
    "Describe how bread is made, from the field to the table.",
    "Tell the history of the bicycle in many paragraphs.",
)


class SyntheticTalk:
    """The synthetic model has no text: its tokens are shown as numbers."""

    stop_ids: frozenset[int] = frozenset()

    def prompt(self, request: int, turn: int) -> list[int]:
        """A few token ids that depend on the request."""
        rng = np.random.default_rng([request, turn])
        return [int(token) for token in rng.integers(0, 1_000, 8)]

    def question(self, request: int, turn: int) -> str:
        """How the prompt is shown."""
        return f"synthetic prompt {self.prompt(request, turn)}"

    def show(self, request: int, tokens: tuple[int, ...]) -> str:
        """How tokens are shown as they are decided."""
        return " ".join(str(token) for token in tokens)


class SmolLM2Talk:
    """Questions and answers of the language model."""

    def __init__(self, model: SmolLM2) -> None:
        self._tokenizer = model.tokenizer
        self.stop_ids = frozenset(model.tokenizer.end_ids)
        self._streams: dict[int, TextStream] = {}

    def prompt(self, request: int, turn: int) -> list[int]:
        """A question as a chat prompt."""
        self._streams[request] = self._tokenizer.stream()
        return self._tokenizer.chat_prompt(self.question(request, turn))

    def question(self, request: int, turn: int) -> str:
        """The question of a request's turn."""
        return _QUESTIONS[(2 * turn + request) % len(_QUESTIONS)]

    def show(self, request: int, tokens: tuple[int, ...]) -> str:
        """The text that these tokens complete."""
        return printable(self._streams[request].push(tokens))


def printable(text: str) -> str:
    """`text` on one line, with nothing in it that a terminal would obey."""
    return "".join("⏎" if c == "\n" else c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
