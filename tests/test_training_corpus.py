"""The target talking to itself: roles, temperatures, determinism, kill and resume."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from eagle.__main__ import main
from eagle.training import corpus
from eagle.training.conversation import Row, Template, read_template
from eagle.training.corpus import Plan, make_corpus, write_shard
from eagle.training.errors import TrainingError
from eagle.training.shards import read_corpus
from tests.tiny import END, byte_tokenizer
from tests.training_files import save_target, tiny_source

pytestmark = pytest.mark.slow

PLAN = Plan(shards=3, rows=6, length=60, user_limit=8)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Products this small only wait for each other on more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def source():
    return tiny_source()


@pytest.fixture(scope="module")
def shard(source):
    template = read_template(source.tokenizer, source.target.end_tokens)
    return write_shard(source, template, PLAN, 0, [])


def text_of(tokens):
    return "".join(chr(t) if t < 128 else "?" for t in byte_tokenizer_bytes(tokens))


def byte_tokenizer_bytes(tokens):
    """Byte values of the tiny tokenizer's ids; the end token reads as 0."""
    tokenizer = byte_tokenizer()
    return [0 if t == END else tokenizer.decode([t]).encode()[0] for t in tokens]


def test_the_template_is_taken_apart_at_its_contents():
    tokenizer = byte_tokenizer()
    found = read_template(tokenizer, frozenset({END}))
    assert tokenizer.decode(found.opening) == "user: "
    assert tokenizer.decode(found.to_answer) == "\nassistant: "
    assert tokenizer.decode(found.to_question) == "\nuser: "


def row_of(template, **changes):
    values = {"questions": [], "starts": [], "rng": np.random.default_rng(0), "user_limit": 3}
    return Row(template, **values | changes)


HEADERS = Template(opening=(90,), to_answer=(9, 91), to_question=(9, 90), ends=frozenset({9}))


def push_all(row, sampled):
    """Feeds ``sampled`` one by one where the row samples, until all are used and nothing is forced."""
    queue = list(sampled)
    while queue or row.forced:
        row.push(queue.pop(0) if row.sampling() else -1)


def test_forced_headers_are_no_answer_and_an_end_token_is_said_once():
    row = row_of(HEADERS)
    push_all(row, [1, 9, 2, 3, 9, 4])
    #             header q end header answer   end header q
    assert row.tokens == [90, 1, 9, 91, 2, 3, 9, 90, 4]
    assert row.answer == [False] * 4 + [True, True, True] + [False] * 2


def test_a_question_without_an_end_is_ended_for_it():
    row = row_of(HEADERS)
    push_all(row, [1, 2, 3, 5])
    assert row.tokens == [90, 1, 2, 3, 9, 91, 5]


def test_questions_from_a_file_are_forced_whole():
    row = row_of(HEADERS, questions=[(7, 8)])
    push_all(row, [5, 9])
    assert row.tokens == [90, 7, 8, 9, 91, 5, 9, 90, 7, 8, 9, 91]
    assert [t for t, a in zip(row.tokens, row.answer, strict=True) if a] == [5, 9]


def test_without_a_template_everything_is_answer():
    row = row_of(Template((3,), (), (3,), frozenset({9}), chat=False))
    push_all(row, [1, 9, 2])
    assert row.tokens == [3, 1, 9, 3, 2] and all(row.answer)


def test_every_row_is_full_of_alternating_turns(shard):
    assert shard["tokens"].shape == (6, 60) and shard["tokens"].dtype == np.uint16
    assert shard["temperature"].tolist() == pytest.approx([0.0, 0.7, 1.0] * 2)
    for tokens, answers in zip(shard["tokens"], shard["assistant"], strict=True):
        text = text_of(tokens.tolist())
        assert text.startswith("user: ")
        first = int(np.argmax(answers))
        assert answers.any() and text[:first].endswith("\nassistant: ")


def test_answers_at_temperature_0_are_the_targets_best_tokens(source, shard):
    checked = 0
    for row in np.flatnonzero(shard["temperature"] == 0):
        tokens = torch.from_numpy(shard["tokens"][row : row + 1].astype(np.int64))
        best = source.target.logits(source.features(tokens)[0]).argmax(-1)
        for t in np.flatnonzero(shard["assistant"][row]):
            assert int(best[t - 1]) == int(tokens[0, t])
            checked += 1
    assert checked > 20


def test_the_same_index_gives_the_same_shard_and_another_gives_another(source, shard):
    template = read_template(source.tokenizer, source.target.end_tokens)
    again = write_shard(source, template, PLAN, 0, [])
    other = write_shard(source, template, PLAN, 1, [])
    assert all(np.array_equal(shard[name], again[name]) for name in shard)
    assert not np.array_equal(shard["tokens"], other["tokens"])


def test_questions_come_from_their_nucleus_and_answers_from_the_whole_distribution():
    p = torch.tensor([0.5, 0.3, 0.15, 0.05])
    logits = p.log().expand(4000, 4)
    asking = torch.arange(4000) < 2000
    drawn = torch.tensor(
        corpus.choose(logits, torch.ones(4000), asking, 0.7, torch.Generator().manual_seed(0))
    )
    shares = torch.bincount(drawn[:2000], minlength=4) / 2000
    whole = torch.bincount(drawn[2000:], minlength=4) / 2000
    assert shares[2:].sum() == 0 and abs(float(shares[0]) - 0.625) < 0.05  # 4.6 standard errors
    assert torch.allclose(whole, p, atol=0.05)
    cold = corpus.choose(logits[:5], torch.zeros(5), torch.zeros(5, dtype=torch.bool), 0.7, torch.Generator())
    assert cold == [0] * 5


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.npz"))}


def corpus_arguments(target, out):
    options = "--shards 3 --rows 6 --length 60 --user-limit 8 --device cpu --threads 1"
    return ["train", "corpus", "--target", str(target), "--out", str(out), *options.split()]


def test_kill_9_in_the_middle_then_the_same_command_gives_the_same_shards(source, tmp_path):
    make_corpus(source, tmp_path / "whole", PLAN)
    arguments = corpus_arguments(save_target(tmp_path / "target"), tmp_path / "killed")
    with subprocess.Popen([sys.executable, "-m", "eagle", *arguments], stderr=subprocess.PIPE) as process:
        for line in process.stderr:
            if b"shard 1 of 3 written" in line:
                process.kill()
    left = contents(tmp_path / "killed")
    assert process.returncode == -9 and "shard_00000.npz" in left and len(left) < 3
    assert main(arguments) == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert len(read_corpus([tmp_path / "killed"], 257)) == 3


def test_processes_share_the_shards(source, tmp_path):
    make_corpus(source, tmp_path / "one", PLAN)
    for rank in (1, 0):
        make_corpus(source, tmp_path / "two", PLAN, rank=rank, world=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_another_plan_in_the_same_folder_is_refused(source, tmp_path):
    make_corpus(source, tmp_path, Plan(shards=1, rows=3, length=20))
    make_corpus(source, tmp_path, Plan(shards=2, rows=3, length=20))  # more of the same is fine
    with pytest.raises(TrainingError, match="another length"):
        make_corpus(source, tmp_path, Plan(shards=1, rows=3, length=30))


def test_prompt_files_give_their_turns(tmp_path):
    lines = [{"turns": ["a", "b"]}, {"turns": ["c"]}]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "p.txt").write_text("one\n\n two \n")
    assert corpus.read_prompts(tmp_path / "p.jsonl") == ["a", "b", "c"]
    assert corpus.read_prompts(tmp_path / "p.txt") == ["one", "two"]
    (tmp_path / "bad.jsonl").write_text("nothing")
    with pytest.raises(TrainingError, match=r"bad\.jsonl"):
        corpus.read_prompts(tmp_path / "bad.jsonl")


def test_impossible_plans_are_refused():
    with pytest.raises(TrainingError, match="rows must be at least 1"):
        Plan(rows=0)
    with pytest.raises(TrainingError, match="user_top_p"):
        Plan(user_top_p=0.0)
