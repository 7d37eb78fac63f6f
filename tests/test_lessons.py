"""Lessons, presets, misreadings and the teacher's sheet: the numbers in their texts are the rules' own."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from app import lessons, teacher
from app.figures.lab_speed import curves
from app.lab_edit import apply
from app.lab_law import factors, law_of
from app.lab_page import is_covered, render
from app.lab_query import from_query, to_query
from app.lab_recorded import NONE_YET, on_real_node
from app.lab_state import DEFAULT, VIEWS, LabState
from app.lab_tree import small_tree
from app.lab_walk import walk
from app.theme import three_digits as short
from tests import synthetic

EVERY = [(lesson, card) for lesson in range(8) for card in range(1, len(lessons.cards_of(lesson)) + 1)]


def card_text(lesson: int, card: int) -> str:
    chosen = lessons.cards_of(lesson)[card - 1]
    return " ".join((chosen.question, chosen.look, chosen.reveal, *chosen.choices))


@pytest.mark.parametrize(("lesson", "card"), EVERY)
def test_every_card_opens_shows_its_question_and_survives_a_link(lesson: int, card: int) -> None:
    state = lessons.open_card(lesson, card)
    page = render(state)
    assert "question" in page
    assert from_query(to_query(state)) == (state, [])
    names = {field.name for field in fields(LabState)}
    assert set(lessons.page(state).settings) <= names
    for view in VIEWS:
        apply(state, {"do": "view", "v": view})


def test_there_are_six_lessons_of_two_to_six_cards_and_six_presets() -> None:
    assert len(lessons.LESSONS) == 6
    assert all(2 <= len(lesson.cards) <= 6 for lesson in lessons.LESSONS)
    assert len(lessons.PRESETS) == 6
    assert len(lessons.cards_of(lessons.MISREADING_PAGES)) >= 7


def test_right_answers_point_at_a_choice_and_the_law_is_covered_until_answered() -> None:
    for lesson, card in EVERY:
        chosen = lessons.cards_of(lesson)[card - 1]
        assert (chosen.right == 0) == (not chosen.choices)
        assert chosen.right <= len(chosen.choices)
        if chosen.choices and chosen.stage == "lab":
            state = lessons.open_card(lesson, card)
            assert is_covered(state)
            assert "total variation from the target" not in render(state)
            answered, _ = apply(state, {"do": "reveal", "v": chosen.right})
            assert "total variation from the target" in render(answered)
            assert "Right." in render(answered)


def test_next_and_previous_walk_over_all_cards() -> None:
    state, seen = DEFAULT, []
    for _ in range(60):
        seen.append((state.lesson, state.card))
        state, _ = apply(state, {"do": "card", "v": "next"})
    in_order = [page for page in EVERY if 1 <= page[0] <= 6]
    assert list(dict.fromkeys(seen)) == in_order
    back, _ = apply(lessons.open_card(2, 1), {"do": "card", "v": "previous"})
    assert (back.lesson, back.card) == (1, 4)


def test_the_first_page_is_am_have_with_one_candidate() -> None:
    assert (DEFAULT.target, DEFAULT.draft, DEFAULT.k, DEFAULT.rule) == (
        (0.51, 0.49),
        (0.51, 0.49),
        1,
        "eagle2",
    )
    assert lessons.page(DEFAULT).choices


def test_lesson_1_texts() -> None:
    assert law_of(lessons.open_card(1, 1)).output.tolist() == pytest.approx([0.51, 0.49])
    misread = law_of(lessons.open_card(1, 3))
    assert misread.output.tolist() == [1, 0]
    assert f"{short(misread.variation)} away" in card_text(1, 3)
    assert not walk(lessons.open_card(1, 2)).trials[0].accepted


def test_lesson_2_texts() -> None:
    second = walk(lessons.open_card(2, 1)).trials[1]
    assert f"= {short(second.accept)}" in card_text(2, 1)
    law = law_of(lessons.open_card(2, 2))
    path = next(path for path in law.paths if path.rejected and path.accepted)
    assert short(factors("eagle2", law.target, law.target, path)[1]) in card_text(2, 2)
    now = walk(lessons.open_card(2, 3))
    assert [trial.accepted for trial in now.trials] == [False, False]
    assert now.trials[1].before.tolist() == pytest.approx([0, 0.6, 0.4])
    assert now.verdict.final is not None
    assert now.verdict.final.drawn_from.tolist() == pytest.approx([0, 0, 1])
    state = lessons.open_card(2, 4)
    law = law_of(state)
    think = state.tokens.index("think")
    assert law.output[think] == pytest.approx(0.12, abs=1e-12)
    path = next(path for path in law.paths if path.token == think)
    share = factors("eagle2", state.p, state.q, path)
    assert f"{short(share[0] * share[1])} × {short(share[2])} = .12" in card_text(2, 4)


def test_lesson_3_texts() -> None:
    now = walk(lessons.open_card(3, 1))
    assert now.state.tokens[now.candidates[0].token] == "a"
    assert now.trials[0].accept == pytest.approx(0.5)
    biased = law_of(lessons.open_card(3, 2))
    assert biased.output.tolist() == pytest.approx([0.5, 0.5, 0])
    perfect = lessons.open_card(3, 3)
    assert law_of(perfect).accepted == pytest.approx(1)
    assert 1 - law_of(perfect, "eagle2").accepted == pytest.approx(0.49)
    now = walk(lessons.open_card(3, 4))
    assert now.state.tokens[now.candidates[0].token] == "a"
    assert not now.trials[0].accepted
    assert now.trials[1].before.tolist() == pytest.approx([1, 0, 0])


def test_lesson_4_texts() -> None:
    tree = small_tree(6)
    values = dict(zip(("am", "have", "am a", "not", "have a"), tree.value[:5], strict=True))
    assert short(values["am a"]) in card_text(4, 1)
    assert short(values["have a"]) in card_text(4, 1)
    assert values["am a"] > values["have a"]
    assert tree.kept[3]
    assert not tree.expanded[3]
    assert short(tree.value[3]) in card_text(4, 2)
    assert short(tree.value[6]) in card_text(4, 2)
    for total in range(1, 11):
        kept = small_tree(total).kept
        assert sum(kept) == total
        assert all(
            kept[parent]
            for node, parent in enumerate((-1, -1, 0, 0, 1, 1, 2, 2, 4, 4))
            if kept[node] and parent >= 0
        )


def test_lesson_5_texts() -> None:
    state = lessons.open_card(5, 1)
    _, tau, _ = curves(state.share, state.draft_step, state.extra_token)[state.depth]
    assert short(tau) in card_text(5, 1)
    assert short(1 / (1 - state.share)) in card_text(5, 1)
    for cost in (0.24, 0.06):
        depth, _, gain = max(curves(0.7, cost, 0.0), key=lambda row: row[2])
        assert f"depth {depth}" in card_text(5, 2)
        assert f"({short(gain)})" in card_text(5, 2)
    state = lessons.open_card(5, 3)
    assert all(
        gain < 1 for depth, _, gain in curves(state.share, state.draft_step, state.extra_token) if depth
    )


def test_misreadings_have_a_thread_and_true_numbers() -> None:
    for card in lessons.cards_of(lessons.MISREADING_PAGES):
        assert card.link is not None
        assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", card.link[1])
    assert short(0.51 + 0.49 * 0.51) in card_text(7, 8)
    second = walk(lessons.open_card(7, 4)).trials[1]
    assert short(second.accept) in card_text(7, 4)
    assert law_of(lessons.open_card(7, 2)).output.tolist() == [1, 0]
    bad = law_of(lessons.open_card(7, 6))
    assert bad.output.tolist() == pytest.approx([0.1, 0.2, 0.7])


def test_real_nodes_come_from_recorded_runs_and_their_absence_is_said(tmp_path: Path) -> None:
    start = lessons.open_card(6, 1)
    state, said = on_real_node(start, tmp_path)
    assert state == start
    assert said == NONE_YET
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "broken.json").write_text("{")
    run = synthetic.synthetic_run(seed=3, temperature=1.0)
    (folder / "run.json").write_text(run.to_json())
    state, said = on_real_node(start, folder)
    assert len(state.tokens) >= 3
    assert "recorded run" in said
    assert (state.lesson, state.card) == (6, 1)
    assert from_query(to_query(state)) == (state, [])
    misread, _ = on_real_node(lessons.open_card(6, 2), folder)
    assert misread.rule == "misreading"
    assert misread.target == state.target


def test_the_teachers_sheet_is_the_one_in_the_tab() -> None:
    assert teacher.DOCUMENT.read_text(encoding="utf-8") == teacher.markdown(), "run python -m app.teacher"
    page = render(apply(DEFAULT, {"do": "view", "v": "teacher"})[0])
    for block in teacher.PLAN:
        assert block.title in page
