"""Counting τ, acceptance and calibration from recorded runs; resuming; the table; what a head carries."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import eagle
from eagle.__main__ import main
from eagle.evaluate import report, runs, stored
from eagle.evaluate.counts import BINS, Counts, acceptance, calibration, count
from eagle.evaluate.questions import Question, read_questions
from eagle.evaluate.runs import Column, Ledger, Plan
from eagle.head import HeadConfig, HeadModule
from eagle.settings import Settings, Tree
from eagle.text import PromptError
from eagle.trace import ROOT, Finish, Status
from tests.stubs import markov_pair
from tests.tiny import HEAD_DIM, HEADS, HIDDEN, INNER, KV_HEADS, tiny_head, tiny_pair
from tests.training_files import save_target

pytestmark = pytest.mark.slow

TREE = Tree(total=8, depth=3, width=3)


@pytest.fixture(scope="module")
def pair():
    """Two tables of logits, the head's being the target's with noise: many drafts are accepted."""
    torch.manual_seed(5)
    target = 3 * torch.randn(257, 257)
    return markov_pair(target, target + torch.randn(257, 257))


@pytest.fixture(scope="module")
def some_runs(pair):
    settings = [
        Settings(temperature=t, seed=s, max_new_tokens=24, tree=TREE) for t in (0.0, 1.5) for s in (0, 1)
    ]
    return [eagle.generate(pair, "a bc", s) for s in settings]


def test_tokens_and_passes_are_the_runs_own(some_runs):
    for run in some_runs:
        found = count(run, TREE.depth)
        assert found.tau == run.tau
        assert found.tokens == run.new_tokens - 1  # the prompt pass emitted one
        assert found.passes == run.target_passes


def test_calibration_counts_every_node_below_an_accepted_one_tested_or_not(some_runs):
    """The same bins by brute force; without the untested siblings the rate would be too high."""
    for run in some_runs:
        nodes = []
        for step in run.steps[1:]:
            tree = step.tree
            ended_at = None if step.final else max(i for i, s in enumerate(tree.status) if s == "accepted")
            for node in range(len(tree)):
                parent = tree.parent[node]
                if parent == ended_at or (parent != ROOT and tree.status[parent] != "accepted"):
                    continue
                nodes.append((tree.confidence[node], tree.status[node] == "accepted", tree.p[node]))
        bins = count(run, TREE.depth).bins
        assert sum(row[0] for row in bins) == len(nodes)
        for index in range(BINS):
            inside = [n for n in nodes if min(BINS - 1, int(n[0] * BINS)) == index]
            assert bins[index][2] == sum(n[1] for n in inside)
            assert bins[index][3] == pytest.approx(sum(n[2] for n in inside))


def test_untested_siblings_of_an_accepted_node_are_in_the_denominator(some_runs):
    untested_roots_children = sum(
        step.tree.status[node] is Status.NOT_TESTED
        for run in some_runs
        for step in run.steps[1:]
        for node in range(len(step.tree))
        if step.tree.parent[node] == ROOT
    )
    assert untested_roots_children > 0
    tested = sum(len(step.trials) for run in some_runs for step in run.steps)
    whole = sum(row[0] for run in some_runs for row in count(run, TREE.depth).bins)
    assert whole >= tested + untested_roots_children


def test_acceptance_by_draft_step_follows_the_verdicts(some_runs):
    for run in some_runs:
        found = count(run, TREE.depth)
        paths = [sum(s is Status.ACCEPTED for s in step.tree.status) for step in run.steps[1:]]
        ended = [step.final is None for step in run.steps[1:]]
        for level in range(TREE.depth):
            due = [n for n, end in zip(paths, ended, strict=True) if n > level or (n == level and not end)]
            assert found.offered[level] == len(due)
            assert found.accepted[level] == sum(n > level for n in due)
        rows = acceptance(found)
        assert rows[0]["rate"] == round(found.accepted[0] / found.offered[0], 4)


def test_tau_is_one_plus_the_chances_of_each_draft_step():
    """A head with known chances: three steps accepted .5, .5 and 0 of the time give τ = 1 + .5 + .25."""
    counts = Counts(runs=1, tokens=175, passes=100, offered=[100, 50, 25], accepted=[50, 25, 0])
    reached = [row["reached"] for row in acceptance(counts)]
    assert reached == [0.5, 0.25, 0.0]
    assert 1 + sum(reached) == counts.tau


def test_the_accepted_rate_estimates_the_targets_own_p(pair):
    """Over 2,000 judged nodes; a seed in 16,000 would differ by more than 4 standard errors."""
    total = Counts()
    for seed in range(20):
        run = eagle.generate(pair, "xyz", Settings(temperature=1.0, seed=seed, max_new_tokens=60, tree=TREE))
        total.add(count(run, TREE.depth))
    nodes, _, accepted, p = np.sum(total.bins, axis=0)
    assert nodes > 2000 and accepted > 100
    assert abs(accepted - p) < 4 * np.sqrt(p * (1 - p / nodes))


def test_sums_of_counts_are_counts_of_both():
    a = Counts(1, 10, 5, [5, 2], [2, 1], [[1.0, 0.5, 1.0, 0.4]] * BINS)
    b = Counts(1, 6, 3, [3], [3], [[2.0, 0.5, 0.0, 0.1]] * BINS)
    a.add(b)
    assert (a.runs, a.tokens, a.passes, a.offered, a.accepted) == (2, 16, 8, [8, 2], [5, 1])
    assert a.bins[3] == [3.0, 1.0, 1.0, 0.5]


def test_a_perfectly_calibrated_head_has_no_gap():
    counts = Counts(bins=[[10.0, 10 * c, 10 * c, 10 * c] for c in np.arange(BINS) / BINS])
    found = calibration(counts)
    assert found["expected_calibration_error"] == 0.0
    assert len(found["bins"]) == BINS


def write_questions(path, ids, category="chat"):
    lines = [json.dumps({"question_id": i, "category": category, "turns": [f"say {i}"]}) for i in ids]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_questions_are_limited_by_task(tmp_path):
    one, two = (
        write_questions(tmp_path / "one.jsonl", range(5)),
        write_questions(tmp_path / "two.jsonl", range(3), "code"),
    )
    both = read_questions([one, two], limit=2)
    assert [(q.task, q.id) for q in both] == [("one", "0"), ("one", "1"), ("two", "0"), ("two", "1")]
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text(one.read_text() + two.read_text())
    assert [q.task for q in read_questions([mixed], limit=1)] == ["chat", "code"]


@pytest.mark.parametrize("line", ["{", "[]", '{"question_id": 1}', '{"question_id": 1, "turns": [" "]}'])
def test_a_line_that_is_no_question_is_named(tmp_path, line):
    path = write_questions(tmp_path / "q.jsonl", range(2))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(PromptError, match=r"Line 3 of q\.jsonl"):
        read_questions([path])


def plan(columns, questions):
    return Plan([(c, questions) for c in columns], TREE, max_new_tokens=6)


COLUMNS = [Column(0.0, False), Column(1.0, False)]
FULL = Column(0.0, True)
QUESTIONS = [Question("chat", "1", ("hello", "and then?")), Question("code", "2", ("def f(x):",))]


def test_a_killed_evaluation_goes_on_where_it_was(pair, tmp_path, monkeypatch):
    header, path = {"head": "x"}, tmp_path / "out.partial"
    whole = runs.run_plan(pair, plan(COLUMNS, QUESTIONS), Ledger(None, header))
    asked = []
    real = runs.ask

    def dies_at_the_third(pair, question, settings):
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(question)
        return real(pair, question, settings)

    monkeypatch.setattr(runs, "ask", dies_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        runs.run_plan(pair, plan(COLUMNS, QUESTIONS), Ledger(path, header))
    path.write_text(path.read_text()[:-20])  # the last line was cut short
    again = []
    monkeypatch.setattr(runs, "ask", lambda *a: again.append(a) or real(*a))
    resumed = runs.run_plan(pair, plan(COLUMNS, QUESTIONS), Ledger(path, header))
    assert resumed == whole
    assert len(again) == 2  # four questions, of which two whole lines were left
    with pytest.raises(PromptError, match="another head, target or setting"):
        Ledger(path, {"head": "y"})


def test_later_turns_see_the_answers_before_them(pair, monkeypatch):
    seen = []
    real = runs.generate
    monkeypatch.setattr(
        runs, "generate", lambda p, prompt, s: seen.append(list(prompt)) or real(p, prompt, s)
    )
    counts = runs.ask(pair, QUESTIONS[0], Settings(max_new_tokens=6, seed=0, tree=TREE))
    assert counts.runs == 2
    assert [m["role"] for m in seen[1]] == ["user", "assistant", "user"]


def test_a_run_that_filled_the_context_has_no_next_turn(pair, monkeypatch):
    real = runs.generate

    def full(p, prompt, s):
        return real(p, prompt, s).model_copy(update={"finish": Finish.CONTEXT})

    monkeypatch.setattr(runs, "generate", full)
    assert runs.ask(pair, QUESTIONS[0], Settings(max_new_tokens=6, seed=0, tree=TREE)).runs == 1


def test_untrimming_lets_the_draft_propose_everything_and_leaves_the_pair_alone():
    pair = tiny_pair()
    head = tiny_head(pair.target, vocabulary=torch.arange(40))
    trimmed = eagle.Pair(pair.target, head, pair.tokenizer, pair.info)
    whole = runs.untrimmed(trimmed)
    assert (trimmed.head.draft_vocabulary_size, whole.head.draft_vocabulary_size) == (40, 257)
    settings = Settings(max_new_tokens=12, seed=0, tree=TREE)
    direct = eagle.generate(pair, "abc", settings)
    assert eagle.generate(whole, "abc", settings).steps[1].tree == direct.steps[1].tree


def test_the_table_names_every_task_column_and_mean():
    wanted = plan([*COLUMNS, FULL], QUESTIONS)
    results = runs.run_plan(tiny_pair(), wanted, Ledger(None, {}))
    held_out = {"top1": [0.5, 0.4], "top4": [0.7, 0.6], "positions": 1000, "reachable": 0.987}
    found = report.as_json(wanted, results, held_out, {"head": "tiny"})
    json.dumps(found, allow_nan=False)
    text = report.table(found)
    for words in ("chat", "code", "mean", "T=0 full", "T=1", "draft step", "50.0%", "98.70%"):
        assert words in text
    taus = [task["tau"] for task in found["columns"][0]["tasks"].values()]
    assert found["columns"][0]["tau"] == pytest.approx(sum(taus) / 2, abs=1e-3)


@pytest.fixture
def head_folder(tmp_path):
    """The tiny head as an exported folder beside its target's folder."""
    from eagle.training.export import save, write_json
    from eagle.training.start import layout

    target = save_target(tmp_path / "target")
    torch.manual_seed(0)
    head = HeadModule(HeadConfig(HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, 257))
    folder = tmp_path / "head"
    folder.mkdir()
    write_json(folder / "config.json", layout(head.config, 10000.0))
    save(folder / "model.safetensors", dict(head.state_dict()))
    return target, folder


def test_eval_command_writes_json_and_stores_it_with_the_weights_hash(head_folder, tmp_path, capsys):
    target, folder = head_folder
    questions = write_questions(tmp_path / "q.jsonl", range(2))
    out = tmp_path / "out.json"
    arguments = ["eval", "--target", str(target), "--head", str(folder), "--device", "cpu"]
    arguments += ["--prompts", str(questions), "--max-new-tokens", "5", "--tree", "4/2/2"]
    arguments += ["--out", str(out), "--json", "--store"]
    assert "carries no evaluation" in stored.stale(folder)[0]
    assert main(arguments) == 0
    last = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert last == json.loads(out.read_text())
    assert [c["temperature"] for c in last["columns"]] == [0.0, 1.0]
    kept = json.loads((folder / "config.json").read_text())["eagle"]["evaluation"]
    assert kept["reports"] == [last] and kept["check"]["tau"] >= 1
    stored.store(folder, last, 1.5)
    stored.store(folder, last | {"prompts": []}, 1.5)
    assert len(stored.stored_evaluation(folder)["reports"]) == 2  # the same prompts are replaced
    assert stored.stale(folder) == []
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-1] + b"\x07")
    trace = tmp_path / "run.json"
    trace.write_text(json.dumps({"pair": {"head": {"hash": "0" * 64}}}))
    assert [s.split(" is of")[0] for s in stored.stale(folder, [trace])] == [
        "The evaluation stored with head head",
        "The recorded run run.json",
    ]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--limit", "0"], "--limit must be at least 1"),
        (["--tree", "0/1/1"], "total must be"),
        (["--temperatures", "9"], "temperature must be"),
        (["--prompts", "no/such/file.jsonl"], "can not be read"),
    ],
)
def test_bad_options_end_before_anything_is_loaded(extra, words, capsys):
    assert main(["eval", *extra]) == 2
    assert words in capsys.readouterr().err
