"""The prompt, its examples and the settings of a run: components, and what their values mean."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import gradio as gr

from app.labels import html_text
from eagle.settings import MAX_SEED, Method, Settings, SettingsError, Tree

PROMPTS = Path(__file__).resolve().parent.parent / "assets" / "prompts.jsonl"
DEFAULT_TEMPERATURE = 0.7
DEFAULT_TOKENS = 64
METHOD_WORDS = {
    Method.EAGLE2: "EAGLE-2: a dynamic tree of guesses",
    Method.VANILLA: "vanilla: no guesses, one token a pass",
    Method.CHAIN: "chain: one sampled guess after another",
    Method.EAGLE1: "EAGLE-1: a fixed tree of sampled guesses",
    Method.EAGLE3: "EAGLE-3: the same dynamic tree, from a head of the next generation",
}
BUILT_IN_METHODS = tuple(method for method in METHOD_WORDS if method is not Method.EAGLE3)
TREE_WORDS = [
    ("paper, 60/6/10", "paper"),
    ("small, 12/4/4", "12/4/4"),
    ("auto", "auto"),
    ("custom", "custom"),
]


@dataclass(frozen=True)
class Form:
    """The components whose values make a run, in the order their values arrive."""

    prompt: gr.Textbox
    method: gr.Dropdown
    temperature: gr.Slider
    top_p: gr.Slider
    top_k: gr.Number
    seed: gr.Textbox
    max_new_tokens: gr.Slider
    tree: gr.Radio
    total: gr.Slider
    depth: gr.Slider
    width: gr.Slider
    compare: gr.Checkbox

    def inputs(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)]


def examples() -> list[tuple[str, str]]:
    """One prompt of each kind, as (kind, prompt)."""
    found: dict[str, str] = {}
    for line in PROMPTS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["category"], row["turns"][0])
    return list(found.items())


def chips(prompts: list[tuple[str, str]]) -> str:
    """Example prompts as buttons."""
    buttons = "".join(
        f'<button type="button" class="chip" data-act="example" data-index="{index}" '
        f'title="{html_text(prompt)}">'
        f"{html_text(kind)}</button>"
        for index, (kind, prompt) in enumerate(prompts)
    )
    return f'<div class="chips"><span>Try:</span>{buttons}</div>'


def method_choices(methods: Iterable[Method]) -> list[tuple[str, str]]:
    """The method menu's entries for what a pair can run, in the menu's order."""
    return [(words, method.value) for method, words in METHOD_WORDS.items() if method in set(methods)]


def build_settings(prompt: gr.Textbox) -> Form:
    """The settings, in the open context."""
    with gr.Row():
        method = gr.Dropdown(
            method_choices(BUILT_IN_METHODS),
            value=Method.EAGLE2.value,
            label="Method",
            min_width=240,
        )
        temperature = gr.Slider(
            0,
            2,
            DEFAULT_TEMPERATURE,
            step=0.05,
            label="Temperature",
            info="0 always takes the most likely token.",
            min_width=200,
        )
        tokens = gr.Slider(1, 512, DEFAULT_TOKENS, step=1, label="Most new tokens", min_width=200)
        seed = gr.Textbox("", label="Seed", placeholder="blank: a fresh one", max_lines=1, min_width=140)
    with gr.Row():
        tree = gr.Radio(
            TREE_WORDS, value="12/4/4", label="Tree: guesses kept / levels / width", min_width=320
        )
        top_p = gr.Slider(0.01, 1, 1, step=0.01, label="Top-p", min_width=160)
        top_k = gr.Number(0, label="Top-k", info="0 is off", precision=0, minimum=0, min_width=100)
        compare = gr.Checkbox(True, label="Also time plain decoding", min_width=180)
    with gr.Row(visible=False) as custom:
        total = gr.Slider(1, 256, 24, step=1, label="Guesses kept")
        depth = gr.Slider(1, 16, 5, step=1, label="Levels")
        width = gr.Slider(1, 32, 6, step=1, label="Width")
    tree.change(
        None,
        tree,
        custom,
        js="(tree) => ({__type__: 'update', visible: tree === 'custom'})",
        show_progress="hidden",
        api_visibility="private",
    )
    return Form(prompt, method, temperature, top_p, top_k, seed, tokens, tree, total, depth, width, compare)


def settings_from(values: dict[str, Any]) -> Settings:
    """Checked settings from the form's values; SettingsError names what is wrong."""
    tree: Any = values["tree"]
    if tree == "custom":
        tree = Tree(
            total=_whole("total", values["total"]),
            depth=_whole("depth", values["depth"]),
            width=_whole("width", values["width"]),
        )
    return Settings(
        method=values["method"],
        temperature=values["temperature"],
        top_p=values["top_p"],
        top_k=_whole("top_k", values["top_k"]),
        seed=_seed(values["seed"]),
        max_new_tokens=_whole("max_new_tokens", values["max_new_tokens"]),
        tree=tree,
    )


def _whole(name: str, value: Any) -> Any:
    """Sliders may send 64.0 for 64; anything else is left for the settings to judge."""
    if value is None and name == "top_k":
        return 0
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _seed(value: Any) -> int | None:
    text = str(value if value is not None else "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_SEED)):
        raise SettingsError(
            f"seed must be a whole number from 0 to {MAX_SEED}, or left out for a fresh one, "
            f"but is {text!r:.40}."
        )
    return int(text)
