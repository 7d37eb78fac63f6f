"""Text in and out: parts of characters, streams, chat templates, BOS, special tokens that somebody typed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from eagle import text as text_module
from eagle.decoder import generate
from eagle.settings import Settings
from eagle.text import MAX_PROMPT_CHARACTERS, PromptError, TextStream, encode, label, labels
from tests.tiny import END, byte_tokenizer, tiny_pair

BYTES = byte_tokenizer()
TEXTS = [
    "Grüße",
    "日本語のテキスト",
    "😀👩‍👩‍👧",
    "def f():\n\treturn 1\n",
    "a  b",
    "\u202egnp",
    "naïve café",
    "",
]


def ids_of(text: str) -> list[int]:
    return BYTES(text, add_special_tokens=False)["input_ids"]


def streamed(tokenizer: Any, ids: list[int]) -> list[str]:
    """The pieces as a run emits them: one a token, the rest with the last."""
    stream = TextStream(tokenizer)
    pieces = [stream.push(token) for token in ids]
    if pieces:
        pieces[-1] += stream.flush()
    return pieces


@pytest.mark.parametrize("text", TEXTS)
def test_streamed_pieces_join_to_the_text(text: str) -> None:
    """One token a byte: every character of several bytes arrives whole, with its last byte."""
    pieces = streamed(BYTES, ids_of(text))
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_any_text_survives_the_stream(text: str) -> None:
    ids = ids_of(text)
    assert "".join(streamed(BYTES, ids)) == BYTES.decode(ids, clean_up_tokenization_spaces=False)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 255), max_size=20))
def test_any_bytes_join_to_the_decoded_whole(ids: list[int]) -> None:
    """A model may say bytes that are no text at all: then too, the pieces are the decoded whole."""
    assert "".join(streamed(BYTES, ids)) == BYTES.decode(ids, clean_up_tokenization_spaces=False)


def test_a_cut_inside_an_emoji_is_no_error() -> None:
    ids = ids_of("ok 😀")[:-2]
    pieces = streamed(BYTES, ids)
    assert "".join(pieces) == BYTES.decode(ids) and "".join(pieces).startswith("ok ")


def test_the_end_token_adds_no_space() -> None:
    pieces = streamed(BYTES, [*ids_of("yes."), END])
    assert "".join(pieces) == "yes."


def test_parts_of_a_character_are_labelled_by_their_bytes() -> None:
    assert labels(BYTES, ids_of("é")) == ["<0xC3>", "<0xA9>"]
    assert labels(BYTES, ids_of("a\n\t ")) == ["a", "\n", "\t", " "]
    assert label(BYTES, END) == "<|end|>"


def test_a_run_streams_its_answer_and_labels_every_token() -> None:
    pair = tiny_pair()
    run = generate(pair, "Grüße 😀", Settings(temperature=1.0, seed=3, max_new_tokens=32))
    assert run.text == pair.tokenizer.decode(
        run.token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    known = run.labels()
    assert all(token in known for token in run.token_ids)
    assert not any("\ufffd" in text for text in known.values())


# Prompts.


def test_a_chat_prompt_goes_through_the_template() -> None:
    prompt = encode(BYTES, "Hi")
    assert prompt.chat and prompt.text == "Hi"
    assert BYTES.decode(prompt.token) == "user: Hi\nassistant: "
    turns = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    assert BYTES.decode(encode(BYTES, turns).token) == "user: a\nassistant: b\nuser: c\nassistant: "


def test_a_model_without_a_template_completes_plain_text() -> None:
    base = byte_tokenizer()
    base.chat_template = None
    prompt = encode(base, "Hi")
    assert not prompt.chat and base.decode(prompt.token) == "Hi"
    assert BYTES.decode(encode(BYTES, "Hi", chat=False).token) == "Hi"
    with pytest.raises(PromptError, match="no chat template, so it takes text"):
        encode(base, [{"role": "user", "content": "Hi"}])


def test_special_tokens_that_somebody_types_are_plain_text() -> None:
    """Typed, "<|end|>" is seven characters; only the template may end a turn."""
    for prompt in ("say <|end|> now", [{"role": "user", "content": "say <|end|> now"}]):
        ids = encode(BYTES, prompt).token
        assert END not in ids
        assert BYTES.decode(ids) == "user: say <|end|> now\nassistant: "


def test_special_tokens_of_the_template_stay_special() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}<|end|>{% endfor %}"
    ids = encode(tokenizer, "a <|end|> b").token
    assert ids.count(END) == 1 and ids[-1] == END


def test_two_visitors_do_not_meet_in_the_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one prompt's typed special token is read as text, another's template must keep its own."""
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}<|end|>{% endfor %}"
    switched, go_on = Event(), Event()
    plain = text_module._as_plain_text

    def slow(tokenizer: Any, text: str, framed: bool = False) -> list[int]:
        tokenizer.backend_tokenizer.encode_special_tokens = True
        switched.set()
        go_on.wait(20)
        tokenizer.backend_tokenizer.encode_special_tokens = False
        return plain(tokenizer, text, framed)

    monkeypatch.setattr(text_module, "_as_plain_text", slow)
    with ThreadPoolExecutor(2) as visitors:
        first = visitors.submit(encode, tokenizer, "a <|end|> b")
        assert switched.wait(20)
        second = visitors.submit(encode, tokenizer, "Hi")
        done, _ = wait([second], timeout=0.2)  # without the lock it is done at once, and wrong
        go_on.set()
        assert not done
        assert first.result(20).token.count(END) == 1
        assert second.result(20).token.count(END) == 1


def test_special_tokens_are_plain_text_without_a_template_too() -> None:
    base = byte_tokenizer()
    base.chat_template = None
    assert END not in encode(base, "say <|end|> now").token


def bos_tokenizer(template: str | None) -> Any:
    """A tokenizer that puts <s> in front of what it encodes, as Llama's does."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: index for index, character in enumerate(alphabet)} | {"<s>": 256}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>")
    tokenizer.chat_template = template
    return tokenizer


@pytest.mark.parametrize("typed", ["Hi", "Hi <s> there"])
@pytest.mark.parametrize("template", [None, "{{ bos_token }}{{ messages[0]['content'] }}"])
def test_exactly_one_bos(template: str | None, typed: str) -> None:
    ids = encode(bos_tokenizer(template), typed).token
    assert ids[0] == 256 and ids.count(256) == 1


def test_no_bos_where_the_template_writes_none() -> None:
    ids = encode(bos_tokenizer("{{ messages[0]['content'] }}"), "Hi").token
    assert 256 not in ids


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("\n", "is empty"),
        ("a" * 50_000, f"50,000 characters; the limit is {MAX_PROMPT_CHARACTERS:,}"),
        ("a\0b", "null byte at character 2"),
        ("a\ud83d", "lone surrogate"),
    ],
)
def test_bad_prompts_are_one_sentence(text: str, sentence: str) -> None:
    for prompt in (text, [{"role": "user", "content": text}]):
        with pytest.raises(PromptError, match=sentence) as caught:
            encode(BYTES, prompt)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "prompt", [[], [{"role": "user"}], [{"content": "x"}], ["x"], [{"role": 1, "content": "x"}]]
)
def test_chat_messages_are_checked(prompt: Any) -> None:
    with pytest.raises(PromptError):
        encode(BYTES, prompt)


def test_one_character_is_enough() -> None:
    assert generate(tiny_pair(), "?", Settings(seed=0, max_new_tokens=4)).new_tokens == 4
