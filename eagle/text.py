"""Between text and token ids: prompts in, streamed answers and readable labels out."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, cast

from tokenizers.decoders import DecodeStream

from eagle.trace import PromptTrace

MAX_PROMPT_CHARACTERS = 32_000
Message = dict[str, str]
Prompt = str | Sequence[Message] | Sequence[int]

# A tokenizer is shared by all visitors, and reading typed special tokens as text flips a switch of it.
_ENCODING = Lock()


class PromptError(ValueError):
    """A prompt that can not be run; the message says what is wrong and what would be right."""


def check_text(text: str) -> None:
    """Raises PromptError for a blank, overlong or unencodable prompt."""
    if not text.strip():
        raise PromptError("The prompt is empty: write a question or the beginning of a text.")
    if len(text) > MAX_PROMPT_CHARACTERS:
        raise PromptError(
            f"The prompt has {len(text):,} characters; the limit is {MAX_PROMPT_CHARACTERS:,}. Shorten it."
        )
    if "\0" in text:
        raise PromptError(f"The prompt holds a null byte at character {text.index(chr(0)) + 1}; remove it.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PromptError(
            f"The prompt holds a lone surrogate (half a character) at character {error.start + 1}; remove it."
        ) from None


def encode(tokenizer: Any, prompt: Prompt, chat: bool = True) -> PromptTrace:
    """Text or chat messages through the chat template (plain where there is none), or ids as they are.

    Special tokens that a user types are plain text: they can not open a turn.
    """
    if not isinstance(prompt, str) and prompt and isinstance(prompt[0], int):
        ids = [int(cast(int, token)) for token in prompt]
        bad = next((token for token in ids if not 0 <= token < len(tokenizer)), None)
        if bad is not None:
            raise PromptError(f"Token id {bad} is outside the vocabulary of {len(tokenizer):,} tokens.")
        return PromptTrace(text=tokenizer.decode(ids), token=ids, labels=labels(tokenizer, ids), chat=False)
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else _messages(prompt)
    for message in messages:
        check_text(message["content"])
    templated = chat and bool(tokenizer.chat_template)
    if not templated and not isinstance(prompt, str):
        raise PromptError("This model has no chat template, so it takes text, not chat messages.")
    with _ENCODING:
        ids = _through_template(tokenizer, messages) if templated else _plain(tokenizer, str(prompt))
    text = prompt if isinstance(prompt, str) else messages[-1]["content"]
    return PromptTrace(text=text, token=ids, labels=labels(tokenizer, ids), chat=templated)


def _messages(prompt: Any) -> list[Message]:
    """Checked chat messages; PromptError names the first that is not one."""
    if not prompt:
        raise PromptError("The prompt is empty: write a question or the beginning of a text.")
    for index, message in enumerate(prompt):
        if not (
            isinstance(message, dict)
            and isinstance(message.get("role"), str)
            and isinstance(message.get("content"), str)
        ):
            raise PromptError(
                f"Message {index + 1} must have a 'role' and a 'content', both text, but is {message!r:.60}."
            )
    return [{"role": m["role"], "content": m["content"]} for m in prompt]


def _names_special(tokenizer: Any, text: str) -> bool:
    """Whether a special token is spelt out in the text."""
    special = set(tokenizer.all_special_tokens) | set(tokenizer.get_added_vocab())
    return any(token in text for token in special)


def _plain(tokenizer: Any, text: str) -> list[int]:
    """Ids of a text to be completed, with the BOS that the tokenizer puts in front, if it does."""
    if not _names_special(tokenizer, text):
        return tokenizer(text)["input_ids"]
    return _as_plain_text(tokenizer, text, framed=True)


def _through_template(tokenizer: Any, messages: list[Message]) -> list[int]:
    """Ids of the templated chat; contents that hold special tokens are encoded as the text they are."""
    if not any(_names_special(tokenizer, message["content"]) for message in messages):
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return tokenizer(text, add_special_tokens=False)["input_ids"]
    marks = [f"\ufdd0{index}\ufdd1" for index in range(len(messages))]  # characters no text may hold
    marked = [m | {"content": mark} for m, mark in zip(messages, marks, strict=True)]
    text = tokenizer.apply_chat_template(marked, tokenize=False, add_generation_prompt=True)
    ids: list[int] = []
    for message, mark in zip(messages, marks, strict=True):
        before, _, text = text.partition(mark)
        ids += tokenizer(before, add_special_tokens=False)["input_ids"]
        ids += _as_plain_text(tokenizer, message["content"])
    return ids + tokenizer(text, add_special_tokens=False)["input_ids"]


def _as_plain_text(tokenizer: Any, text: str, framed: bool = False) -> list[int]:
    """Ids of text in which special tokens are spelt out, not meant; ``framed`` adds the tokenizer's own."""
    backend = tokenizer.backend_tokenizer
    before = backend.encode_special_tokens
    backend.encode_special_tokens = True
    try:
        return backend.encode(text, add_special_tokens=framed).ids
    finally:
        backend.encode_special_tokens = before


def labels(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Each token's own text, exactly; a part of a character reads as its bytes, such as ``<0xE2><0x80>``."""
    return [label(tokenizer, token) for token in ids]


def label(tokenizer: Any, token: int) -> str:
    """One token's text. Byte-level pieces that are no whole character are spelt as bytes."""
    text = tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False)
    if "\ufffd" not in text:
        return text
    piece = tokenizer.convert_ids_to_tokens(token)
    values = [_BYTE_OF[c] for c in piece if c in _BYTE_OF] if piece else []
    return "".join(f"<0x{value:02X}>" for value in values) if values else (piece or text)


def _byte_level_alphabet() -> dict[str, int]:
    """The byte behind each character that byte-level BPE writes bytes with.

    Printable Latin-1 stands for itself; every other byte, in order, for a character from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in printable]
    return {chr(value): value for value in printable} | {
        chr(0x100 + index): value for index, value in enumerate(others)
    }


_BYTE_OF = _byte_level_alphabet()


class TextStream:
    """Turns ids into text piece by piece; the joined pieces are the decoded whole.

    A piece is empty while a character is incomplete; the text arrives with the token that ends it.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)
        self._ids: list[int] = []
        self._text = ""

    def push(self, token: int) -> str:
        """The text that this token completes."""
        self._ids.append(token)
        piece = self._stream.step(self._tokenizer.backend_tokenizer, token) or ""
        self._text += piece
        return piece

    def flush(self) -> str:
        """What is still missing at the end, an unfinished character included."""
        whole = self._tokenizer.decode(
            self._ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        rest = whole[len(self._text) :] if whole.startswith(self._text) else ""
        self._text += rest
        return rest
