"""Fit, resume after a kill, start from a head, export."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

import eagle
from eagle import head_files
from eagle.__main__ import main
from eagle.training import export as exporting
from eagle.training import loop, start
from eagle.training.checkpoint import RunFolder
from eagle.training.curves import write_curves
from eagle.training.errors import TrainingError
from eagle.training.recipe import Recipe
from tests.training_files import same_tensors, save_corpus, save_target, tiny_reader, tiny_recipe

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Products this small only wait for each other on more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return save_corpus(tmp_path_factory.mktemp("corpus"))


def train(corpus, path, recipe, init=None, report=lambda line: None):
    """What the fit command does, in this process."""
    reader = tiny_reader(corpus)
    begin = start.starting_head(init, reader, recipe)
    vocabulary = start.draft_vocabulary(reader.source, reader.shards, recipe.vocabulary)
    folder = loop.open_run(path)
    record = start.describe(recipe, reader.source, reader.shards, begin, vocabulary, None)
    if folder.has_checkpoint():
        start.check_same_run(folder.record(), record)
    else:
        folder.write_record(record)
        exporting.save_vocabulary(path / head_files.VOCABULARY, vocabulary)
    accelerator = loop.make_accelerator(torch.device("cpu"))
    loop.fit(recipe, reader, begin.module, vocabulary, folder, accelerator, report)
    return folder


@pytest.fixture(scope="module")
def whole_run(corpus, tmp_path_factory):
    return train(corpus, tmp_path_factory.mktemp("run"), tiny_recipe())


def curve(folder):
    """The log without the clock."""
    return [{name: value for name, value in line.items() if name != "seconds"} for line in folder.log()]


def test_training_improves_agreement_on_held_out_text(whole_run):
    log = whole_run.log()
    first, last = log[0]["held_out"], log[-1]["held_out"]
    assert [line["step"] for line in log] == [0, 5, 10, 15, 20, 25, 30, 35, 40]
    assert last["feature_loss"] < first["feature_loss"]
    assert last["token_loss"] < first["token_loss"]
    assert last["top4"][0] > first["top4"][0]


class KilledError(Exception):
    pass


@pytest.mark.parametrize("stop", [5, 15, 25])
def test_a_run_that_stops_anywhere_goes_on_to_the_same_curve_and_weights(corpus, whole_run, tmp_path, stop):
    def die(line):
        if line["step"] == stop:
            raise KilledError

    with pytest.raises(KilledError):
        train(corpus, tmp_path, tiny_recipe(), report=die)
    resumed = train(corpus, tmp_path, tiny_recipe())
    assert curve(resumed) == curve(whole_run)
    assert same_tensors(resumed.load()[0], whole_run.load()[0])


def fit_arguments(target, corpus, out):
    options = "--steps 40 --batch-tokens 240 --lr 1e-2 --warmup 5 --unroll 2 --vocabulary 96"
    reports = "--device cpu --threads 1 --log-every 5 --save-every 10 --measure-every 20 --measure-rows 6"
    places = ["--target", str(target), "--corpus", str(corpus), "--out", str(out)]
    return ["train", "fit", *places, *options.split(), *reports.split()]


def test_kill_9_in_the_middle_then_the_same_command_gives_the_same_curve(corpus, whole_run, tmp_path):
    target, out = save_target(tmp_path / "target"), tmp_path / "run"
    arguments = fit_arguments(target, corpus, out)
    command = [sys.executable, "-m", "eagle", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("step 25"):
                process.kill()
    assert process.returncode == -9
    assert RunFolder(out).has_checkpoint()
    assert main(arguments) == 0
    assert curve(RunFolder(out)) == curve(whole_run)
    assert same_tensors(RunFolder(out).load()[0], whole_run.load()[0])
    assert (out / "curves.html").is_file()


def test_a_finished_run_is_left_as_it_is(corpus, whole_run):
    before = (whole_run.path / "checkpoint.pt").read_bytes()
    train(corpus, whole_run.path, tiny_recipe())
    assert (whole_run.path / "checkpoint.pt").read_bytes() == before


def test_another_recipe_in_the_same_folder_is_refused_by_name(corpus, whole_run):
    with pytest.raises(TrainingError, match=r"another recipe \(lr, noise\)"):
        train(corpus, whole_run.path, tiny_recipe(lr=1e-3, noise=0.2))


def test_minutes_end_a_run(corpus, tmp_path):
    folder = train(corpus, tmp_path, tiny_recipe(steps=10**6, minutes=1e-3))
    progress = folder.load()[2]
    assert progress.finished and progress.step < 10**6


def test_export_is_a_published_layout_that_load_takes(corpus, whole_run, tmp_path):
    head = exporting.export(whole_run, tmp_path / "head")
    tensors = load_file(head / "model.safetensors")
    assert sorted(tensors) == [
        "fc.bias",
        "fc.weight",
        "layers.0.mlp.down_proj.weight",
        "layers.0.mlp.gate_proj.weight",
        "layers.0.mlp.up_proj.weight",
        "layers.0.post_attention_layernorm.weight",
        "layers.0.self_attn.k_proj.weight",
        "layers.0.self_attn.o_proj.weight",
        "layers.0.self_attn.q_proj.weight",
        "layers.0.self_attn.v_proj.weight",
    ]
    assert {t.dtype for t in tensors.values()} == {torch.float16}
    told = json.loads((head / "config.json").read_text())["eagle"]
    assert told["target_sha256"] == "ab" * 32
    assert told["steps"] == 40 and told["corpus_tokens"] == 2 * 72 * 24
    assert told["held_out"] == whole_run.log()[-1]["held_out"]
    pair = eagle.load(str(save_target(tmp_path / "target")), str(head), device="cpu")
    assert pair.head.draft_vocabulary_size == 96
    run = eagle.generate(pair, "abc", eagle.Settings(max_new_tokens=8, seed=0))
    plain = eagle.generate(pair, "abc", eagle.Settings(method="vanilla", max_new_tokens=8, seed=0))
    assert run.token_ids == plain.token_ids


def test_a_run_starts_from_an_exported_head_a_run_or_a_weights_file(corpus, whole_run, tmp_path):
    head = exporting.export(whole_run, tmp_path / "head")
    weights = whole_run.load()[0]
    save_file({name: value.contiguous() for name, value in weights.items()}, tmp_path / "w.safetensors")
    reader = tiny_reader(corpus)
    for init in (head, whole_run.path, tmp_path / "w.safetensors"):
        begin = start.starting_head(init, reader, tiny_recipe())
        half = init == head
        for name, value in begin.module.state_dict().items():
            expected = weights[name].half().float() if half else weights[name]
            assert torch.equal(value, expected), (init, name)
    next_run = train(corpus, tmp_path / "next", tiny_recipe(steps=5), init=head)
    told = exporting.export(next_run, tmp_path / "head2")
    record = json.loads((told / "config.json").read_text())["eagle"]
    assert record["steps"] == 45 and [part["steps"] for part in record["history"]] == [40]


def test_a_head_of_another_size_is_no_start(corpus, whole_run, tmp_path):
    head = exporting.export(whole_run, tmp_path / "head")
    config = json.loads((head / "config.json").read_text())
    (head / "config.json").write_text(json.dumps(config | {"hidden_size": 64}))
    with pytest.raises(TrainingError, match="hidden size 64, but the target has 32"):
        start.starting_head(head, tiny_reader(corpus), tiny_recipe())


def test_weights_beyond_fp16_are_not_exported(whole_run, tmp_path):
    weights, states, progress = whole_run.load()
    weights["fc.bias"] = weights["fc.bias"] + 1e6
    copy = loop.open_run(tmp_path / "copy")
    copy.save(weights, states, progress)
    copy.write_record(whole_run.record())
    with pytest.raises(TrainingError, match=r"fc\.bias does not fit fp16"):
        exporting.export(copy, tmp_path / "head")


def test_curves_show_both_losses_and_every_draft_step(whole_run, tmp_path):
    write_curves(whole_run.log(), tmp_path / "curves.html")
    page = (tmp_path / "curves.html").read_text()
    for words in ("training loss", "draft step 4, best token", "draft step 1, among the best four"):
        assert words in page
    assert "https://" not in page.replace("https://plot.ly", "")
    assert (tmp_path / "plotly.min.js").is_file()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"lr": 0.0}, "lr must be above 0"),
        ({"noise": -1.0}, "noise must be at least 0"),
        ({"lr": float("nan")}, "lr must be above 0"),
        ({"optimizer": "sgd"}, "adamw or muon"),
        ({"save_every": 7}, "multiple of log_every"),
    ],
)
def test_recipes_that_can_not_be(change, words):
    with pytest.raises(TrainingError, match=words):
        Recipe(**change)


def test_a_recipe_survives_json():
    recipe = tiny_recipe(minutes=3.0)
    assert Recipe.from_json(json.loads(json.dumps(recipe.as_json()))) == recipe
    assert Recipe.from_json(json.loads(json.dumps(tiny_recipe().as_json()))) == tiny_recipe()


def test_the_learning_rate_warms_up_and_falls_to_its_floor():
    recipe = Recipe(steps=100, warmup=10, floor=0.02)
    rates = [recipe.rate(step, 0.0) for step in range(100)]
    assert rates[0] == pytest.approx(0.1, abs=1e-3)
    assert max(rates) == rates[9]
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert recipe.rate(100, 0.0) == pytest.approx(0.02)


def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, capsys):
    target = save_target(tmp_path / "target")
    assert main(fit_arguments(target, tmp_path / "nothing", tmp_path / "run")) == 2
    said = capsys.readouterr().err
    assert "There is no shard" in said and "Traceback" not in said
    assert main(["train", "export", "--run", str(tmp_path), "--out", str(tmp_path / "h")]) == 2
