"""SmolLM2's tokenizer: byte-level BPE in GPT-2's style, digits apart, with ChatML control tokens.

Built from the vocabulary inside the GGUF file. Pieces are cut as the model's own pre-tokenizer does (every number
character alone, then GPT-2's pattern) and merged by rank (Sennrich et al. 2016, arXiv 1508.07909).
"""

from __future__ import annotations

import codecs
import hashlib
import re
import unicodedata
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from pp1wire.errors import PP1Error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pp1wire.demo.smollm2.checkpoint import Vocabulary

__all__ = ["TextStream", "Tokenizer"]

SYSTEM_PROMPT = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
"""What the model's chat template says when the user gives no system message."""

# Unicode's White_Space; Python's \s also has U+001C to U+001F, which the model's pattern treats as symbols.
_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# GPT-2's pattern for text without number characters: there \w is exactly letters and the underscore.
_PIECE = re.compile(rf"'(?:[stmd]|re|ve|ll)| ?[^\W_]+| ?(?:[^\w{_SPACE}]|_)+|[{_SPACE}]+(?![^{_SPACE}])|[{_SPACE}]+")


class Tokenizer:
    """Text to token ids and back; every text whose bytes the vocabulary knows comes back unchanged."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Build the tables; `PP1Error` if a merge or a control token the chat format needs is not in the vocabulary."""
        to_byte = {character: byte for byte, character in enumerate(_byte_alphabet())}
        try:
            self._bytes = tuple(
                text.encode() if index in vocabulary.control else bytes(to_byte[character] for character in text)
                for index, text in enumerate(vocabulary.tokens)
            )
            ids = {text: index for index, text in enumerate(vocabulary.tokens)}
            self._merges: dict[tuple[int, int], tuple[int, int]] = {}
            for rank, merge in enumerate(vocabulary.merges):
                left, _, right = merge.partition(" ")
                self._merges[ids[left], ids[right]] = (rank, ids[left + right])
            self._im_start, self._im_end = ids["<|im_start|>"], ids["<|im_end|>"]
            self.end_ids = frozenset([self._im_end, ids["<|endoftext|>"]])
            """Ids that end an answer."""
        except KeyError as error:
            raise PP1Error(f"the model file's vocabulary is inconsistent: it lacks {error}") from None
        self.control_ids = vocabulary.control
        """Ids that are markup of the chat format, not text."""
        self._first = [ids.get(character, vocabulary.unknown_id) for character in _byte_alphabet()]
        self._piece_ids = lru_cache(maxsize=4096)(self._merge)

    @property
    def vocabulary_digest(self) -> bytes:
        """SHA-256 of the global id map, 32 bytes: over each id's bytes in order, each after its length as u32."""
        digest = hashlib.sha256()
        for entry in self._bytes:
            digest.update(len(entry).to_bytes(4, "little") + entry)
        return digest.digest()

    def encode(self, text: str) -> list[int]:
        """Ids of plain text. Control tokens are never made: ``<|im_end|>`` typed by a user is a few symbols.

        The vocabulary has no token for 21 bytes (seven control characters and bytes that no assigned character
        uses); they become its unknown id. Raises `PP1Error` if `text` has a lone surrogate, which is not Unicode.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            code = ord(text[error.start])
            raise PP1Error(f"cannot encode text: lone surrogate U+{code:04X} at character {error.start}") from None
        return [token for piece in _pieces(text) for token in self._piece_ids(piece)]

    def chat_prompt(self, user_text: str, *, system: str = SYSTEM_PROMPT) -> list[int]:
        """Ids of a one-turn chat up to where the answer begins, as the model's chat template spells it."""
        ids: list[int] = []
        for role, content in (("system", system), ("user", user_text)):
            ids += [self._im_start, *self.encode(f"{role}\n{content}"), self._im_end, *self.encode("\n")]
        return [*ids, self._im_start, *self.encode("assistant\n")]

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token (the name, for a control token); `PP1Error` if there is no such id."""
        if not 0 <= token < len(self._bytes):
            raise PP1Error(f"token id {token}, expected 0 to {len(self._bytes) - 1}")
        return self._bytes[token]

    def decode(self, tokens: Iterable[int], *, control: bool = False) -> str:
        """Text of `tokens`, control tokens only if `control`; bytes that are no UTF-8 become U+FFFD."""
        stream = self.stream(control=control)
        return stream.push(tokens) + stream.finish()

    def stream(self, *, control: bool = False) -> TextStream:
        """A decoder to push tokens into as they are decided."""
        return TextStream(self, control=control)

    def _merge(self, piece: str) -> tuple[int, ...]:
        ids = [self._first[byte] for byte in piece.encode()]
        while len(ids) > 1:
            best = min(
                (self._merges[pair] + pair for pair in set(pairwise(ids)) & self._merges.keys()),
                default=None,
            )
            if best is None:
                break
            _, merged, left, right = best
            ids = list(_replace_pair(ids, left, right, merged))
        return tuple(ids)


class TextStream:
    """Bytes of tokens to text, one push at a time; a character cut between tokens waits for its rest."""

    def __init__(self, tokenizer: Tokenizer, *, control: bool = False) -> None:
        """Decode with `tokenizer`; control tokens are left out unless `control`."""
        self._tokenizer = tokenizer
        self._control = control
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, tokens: Iterable[int]) -> str:
        """The text that these tokens complete, maybe empty; `PP1Error` if there is no such id."""
        hidden = frozenset[int]() if self._control else self._tokenizer.control_ids
        return self._decoder.decode(
            b"".join(self._tokenizer.token_bytes(token) for token in tokens if token not in hidden)
        )

    def finish(self) -> str:
        """What is left at the end: U+FFFD if the last character is incomplete, else nothing."""
        return self._decoder.decode(b"", final=True)


def _byte_alphabet() -> list[str]:
    """GPT-2's printable stand-in for each byte: itself if printable Latin-1, else the next free one from U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def _pieces(text: str) -> Iterator[str]:
    for number, run in groupby(text, key=lambda character: unicodedata.category(character)[0] == "N"):
        if number:
            yield from run
        else:
            yield from _PIECE.findall("".join(run))


def _replace_pair(ids: list[int], left: int, right: int, merged: int) -> Iterator[int]:
    position = 0
    while position < len(ids):
        if ids[position : position + 2] == [left, right]:
            yield merged
            position += 2
        else:
            yield ids[position]
            position += 1
