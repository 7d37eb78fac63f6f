"""Loading from folders: every published layout, and each bad load as one plain sentence."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from accelerate import dispatch_model
from huggingface_hub import errors
from safetensors.torch import save_file
from torch import Tensor

from eagle import head_files, head_loading, loading, memory
from eagle.builtin import LoadError
from eagle.decoder import Pair, generate
from eagle.head import HeadModule
from eagle.head3 import DraftHead3
from eagle.hub import stored_size
from eagle.loading import load, pick_device, pick_dtype
from eagle.settings import Settings
from eagle.target import TransformersTarget
from tests.head_folders import eagle3_tensors, head_config, head_tensors, write_head
from tests.stubs import prompt_of
from tests.tiny import byte_tokenizer, tiny_model


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny target's folder."""
    folder = tmp_path_factory.mktemp("targets") / "tiny-target"
    tiny_model().save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("eagle.loading.probe", lambda pair: None)


def drafts(pair: Pair, method: str = "eagle2") -> tuple[list[int], list[float]]:
    """The first tree's tokens and confidences: what tells whether a head was read right."""
    run = generate(pair, prompt_of(9), Settings(method=method, seed=0, max_new_tokens=8))
    tree = run.steps[1].tree
    assert tree is not None
    return tree.token, tree.confidence


def says(match: str, **names: Any) -> None:
    """The load fails with one plain sentence."""
    with pytest.raises(LoadError, match=match) as caught:
        load(**names)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence and "Traceback" not in sentence
    assert len(sentence) < 400


# Layouts.


@pytest.mark.slow
@pytest.mark.parametrize("form", ["safetensors", "bin", "sharded", "sharded bin", "both"])
def test_all_files_of_a_head_give_the_same_numbers(target: Path, tmp_path: Path, form: str) -> None:
    whole = write_head(tmp_path / "whole", head_tensors())
    expected = drafts(load(str(target), str(whole)))
    folder = write_head(tmp_path / "head", head_tensors(), form)
    assert drafts(load(str(target), str(folder))) == expected


@pytest.mark.slow
@pytest.mark.parametrize("qkv_bias", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_biases_are_what_the_file_has(
    target: Path, tmp_path: Path, bias: bool, qkv_bias: bool, named: bool
) -> None:
    """fc's and q/k/v's biases are used where they are, whether or not the config says a word about them."""
    tensors = head_tensors(bias=bias, qkv_bias=qkv_bias)
    config = head_config() | ({"bias": bias, "qkv_bias": qkv_bias} if named else {})
    pair = load(str(target), str(write_head(tmp_path / "head", tensors, config=config)))
    without = {name: torch.zeros_like(t) if name.endswith("bias") else t for name, t in tensors.items()}
    other = load(str(target), str(write_head(tmp_path / "other", without, config=config)))
    assert (drafts(pair) != drafts(other)) == (bias or qkv_bias)
    assert pair.info.head is not None
    assert pair.info.head.parameters == sum(tensor.numel() for tensor in tensors.values())


def test_a_copy_of_the_targets_embeddings_is_shared_and_others_are_used(target: Path, tmp_path: Path) -> None:
    rows = tiny_model().get_input_embeddings().weight.detach()
    plain = load(str(target), str(write_head(tmp_path / "plain", head_tensors())))
    copied = head_tensors() | {"embed_tokens.weight": rows.clone()}
    same = load(str(target), str(write_head(tmp_path / "same", copied)))
    assert same.head is not None and same.head.embedding is None
    assert drafts(same) == drafts(plain)
    changed = head_tensors() | {"embed_tokens.weight": rows.roll(1, 0).contiguous()}
    other = load(str(target), str(write_head(tmp_path / "other", changed)))
    assert other.head is not None and other.head.embedding is not None
    assert drafts(other) != drafts(plain)


def test_rope_comes_from_the_head_and_else_from_the_target(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    tiny_model(rope_parameters={"rope_type": "default", "rope_theta": 777.0}).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    config = head_config()
    config.pop("rope_theta")
    bases = {}
    for name, changes in {"target's": {}, "own": {"rope_theta": 55.0}}.items():
        pair = load(str(folder), str(write_head(tmp_path / name, head_tensors(), config=config | changes)))
        assert pair.head is not None
        bases[name] = float(pair.head.rotary.inverse_frequencies[1])
    assert bases["target's"] == pytest.approx(777.0**-0.25)
    assert bases["own"] == pytest.approx(55.0**-0.25)
    linear = config | {"rope_theta": 55.0, "rope_scaling": {"type": "linear", "factor": 4.0}}
    pair = load(str(folder), str(write_head(tmp_path / "scaled", head_tensors(), config=linear)))
    assert pair.head is not None
    assert float(pair.head.rotary.inverse_frequencies[1]) == pytest.approx(55.0**-0.25 / 4)


def test_a_head_that_names_fewer_positions_runs_past_them(target: Path, tmp_path: Path) -> None:
    config = head_config() | {"max_position_embeddings": 64}
    pair = load(str(target), str(write_head(tmp_path / "head", head_tensors(), config=config)))
    assert any("up to 64 tokens" in note for note in pair.info.notes)
    asked = {"seed": 0, "max_new_tokens": 24}
    drafted = generate(pair, prompt_of(100), Settings(**asked))
    assert drafted.token_ids == generate(pair, prompt_of(100), Settings(method="vanilla", **asked)).token_ids


def test_a_tied_target_and_one_in_shards(tmp_path: Path) -> None:
    model = tiny_model(tie_word_embeddings=True)
    for name, size in {"whole": "1GB", "shards": "20KB"}.items():
        model.save_pretrained(tmp_path / name, max_shard_size=size)
        byte_tokenizer().save_pretrained(tmp_path / name)
    runs = [
        generate(
            load(str(tmp_path / name)), prompt_of(9), Settings(method="vanilla", max_new_tokens=8)
        ).token_ids
        for name in ("whole", "shards")
    ]
    assert runs[0] == runs[1]


def test_an_eagle3_head_loads_with_its_own_vocabulary(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    tiny_model(num_hidden_layers=6).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    head = write_head(tmp_path / "head3", eagle3_tensors(), config=head_config() | {"draft_vocab_size": 100})
    pair = load(str(folder), str(head))
    assert isinstance(pair.head, DraftHead3) and pair.target.watched == (2, 3, 3)
    assert pair.info.draft_vocabulary == 100
    tokens, _ = drafts(pair, "eagle3")
    assert all(token % 2 == 1 for token in tokens)  # the map of eagle3_tensors: column c is token 2c + 1


# Bad loads.


def test_wrong_pairs_are_named_with_both_numbers(target: Path, tmp_path: Path) -> None:
    wide = write_head(tmp_path / "wide", head_tensors(), config=head_config() | {"hidden_size": 64})
    says("wide was made for hidden size 64, but the target has 32", target=str(target), head=str(wide))
    other = write_head(tmp_path / "other", head_tensors(), config=head_config() | {"vocab_size": 32000})
    says("vocabulary of 32,000 tokens, but the target has 257", target=str(target), head=str(other))


def test_a_full_model_is_no_head(target: Path, tmp_path: Path) -> None:
    says("tiny-target has 2 layers, but a draft head has 1", target=str(target), head=str(target))
    single = tmp_path / "single"
    tiny_model(num_hidden_layers=1).save_pretrained(single)
    says("full model .LlamaForCausalLM., not a draft head", target=str(target), head=str(single))


def test_an_eagle3_head_needs_a_deep_target(target: Path, tmp_path: Path) -> None:
    head = write_head(tmp_path / "head3", eagle3_tensors())
    says("at least 6; this one has 2", target=str(target), head=str(head))


@pytest.mark.parametrize("missing", ["fc.weight", "layers.0.mlp.up_proj.weight"])
def test_a_missing_tensor_is_named(target: Path, tmp_path: Path, missing: str) -> None:
    tensors = head_tensors()
    tensors.pop(missing)
    says(missing, target=str(target), head=str(write_head(tmp_path / "head", tensors)))


def test_a_tensor_too_many_is_named(target: Path, tmp_path: Path) -> None:
    tensors = head_tensors() | {"layers.1.mlp.up_proj.weight": torch.zeros(2)}
    says(
        "holds the tensor layers.1.mlp", target=str(target), head=str(write_head(tmp_path / "head", tensors))
    )


@pytest.mark.parametrize("key", ["bias", "qkv_bias"])
@pytest.mark.parametrize("says_so", [True, False])
def test_config_and_file_disagree_on_a_bias(target: Path, tmp_path: Path, key: str, says_so: bool) -> None:
    tensors = head_tensors(bias=not says_so, qkv_bias=not says_so)
    folder = write_head(tmp_path / "head", tensors, config=head_config() | {key: says_so})
    says(f"says {key} = {str(says_so).lower()}, but its file", target=str(target), head=str(folder))


def test_a_tensor_of_another_shape_is_named(target: Path, tmp_path: Path) -> None:
    tensors = head_tensors() | {"fc.bias": torch.zeros(7)}
    says(
        r"fc.bias has the shape \(7,\).*\(32,\)",
        target=str(target),
        head=str(write_head(tmp_path / "h", tensors)),
    )


def spoil(folder: Path, how: str) -> None:
    """Breaks a head's folder in one way."""
    weights, config = folder / "model.safetensors", folder / "config.json"
    if how == "no config":
        config.unlink()
    elif how == "bad config":
        config.write_text("{")
    elif how == "no weights":
        weights.unlink()
    elif how == "empty":
        weights.write_bytes(b"")
    elif how == "truncated":
        weights.write_bytes(weights.read_bytes()[:2000])
    elif how == "lfs":
        weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 99\n")
    elif how == "shard outside":
        index = {"weight_map": {"fc.weight": "../../secret.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    elif how == "shard missing":
        (folder / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {"fc.weight": "a.safetensors"}})
        )
    elif how == "bad index":
        (folder / "model.safetensors.index.json").write_text("[]")
    elif how == "heads of a word":
        config.write_text(json.dumps(head_config() | {"num_attention_heads": "four"}))


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("no config", "folder head has no config.json"),
        ("bad config", "not valid JSON"),
        ("no weights", "neither model.safetensors nor pytorch_model.bin"),
        ("empty", "empty or cut short: it has 0 bytes"),
        ("truncated", r"head \(2,000 bytes\) is truncated or not a weight file"),
        ("lfs", "Git LFS pointer"),
        ("shard outside", "outside its folder"),
        ("shard missing", "lacks a.safetensors"),
        ("bad index", "not a valid index"),
        ("heads of a word", "num_attention_heads = 'four'"),
    ],
)
def test_a_broken_folder_says_what_is_wrong(target: Path, tmp_path: Path, how: str, sentence: str) -> None:
    folder = write_head(tmp_path / "head", head_tensors())
    spoil(folder, how)
    says(sentence, target=str(target), head=str(folder))


class Evil:
    """Unpickled carelessly, this would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_pickle_that_runs_code_is_refused_and_does_not_run(target: Path, tmp_path: Path) -> None:
    folder = write_head(tmp_path / "head", head_tensors(), "bin")
    mark = tmp_path / "it ran"
    torch.save({"fc.weight": Evil(mark)}, folder / "pytorch_model.bin")
    says("could run code", target=str(target), head=str(folder))
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"fc.weight": Evil(mark)}))
    says("pytorch_model.bin of head head", target=str(target), head=str(folder))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("/no/such/folder", "neither a folder on this machine nor a hub id"),
        ("../../etc", "leads out of its folder"),
        ("owner/name/extra", "neither a folder on this machine nor a hub id"),
        ("<img src=x>", "neither a folder on this machine nor a hub id"),
        ("", "neither a folder on this machine nor a hub id"),
    ],
)
@pytest.mark.parametrize("which", ["target", "head"])
def test_names_that_are_nothing(target: Path, which: str, name: str, sentence: str) -> None:
    names = {"target": name} if which == "target" else {"target": str(target), "head": name}
    says(sentence, **names)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("GatedRepoError", "is gated: accept its terms.*HF_TOKEN"),
        ("RepositoryNotFoundError", "was not found on the hub: the name may be misspelt.*HF_TOKEN"),
        ("LocalEntryNotFoundError", "the hub can not be reached"),
        ("HfHubHTTPError", "answered with status 503"),
    ],
)
def test_what_the_hub_says_becomes_a_sentence(
    monkeypatch: pytest.MonkeyPatch, error: str, sentence: str
) -> None:
    kind = getattr(errors, error)
    answer = httpx.Response(503, request=httpx.Request("GET", "https://hub.invalid/x?token=hf_secret"))

    def fail(*_: Any, **__: Any) -> None:
        raise kind("hf_secret") if error == "LocalEntryNotFoundError" else kind("hf_secret", response=answer)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(LoadError, match=sentence) as caught:
        load("owner/name")
    assert "hf_secret" not in str(caught.value) and "owner/name" in str(caught.value)


def test_a_target_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    says("target folder empty has no config.json", target=str(tmp_path / "empty"))
    (tmp_path / "empty" / "config.json").write_text('{"model_type": "no-such-family"}')
    says("config.json of target empty is not understood", target=str(tmp_path / "empty"))


def test_a_truncated_target(target: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(target, folder)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    says("target 'cut' could not be loaded", target=str(folder))


# Devices, number types, memory.


def test_a_pair_that_can_not_fit_is_refused_with_both_numbers(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free", lambda device: 0.3e9)
    with pytest.raises(LoadError, match=r"needs about 0.4 GB of memory, but cpu has 0.3 GB free"):
        load(str(target))


def test_needed_memory_follows_the_number_type(target: Path) -> None:
    stored = stored_size(target)
    assert stored == (target / "model.safetensors").stat().st_size
    assert memory.needed(stored, 4, torch.float32) == stored
    assert memory.needed(stored, 4, torch.bfloat16) == stored / 2
    assert memory.needed(stored, 2, torch.float32) == 2 * stored


def test_a_size_that_an_index_tells_is_refused_before_the_weights_are_there(
    target: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "vast"
    folder.mkdir()
    shutil.copy(target / "config.json", folder)
    index = {"metadata": {"total_size": 10**15}, "weight_map": {"x": "model-1.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    says("vast needs about 1000000.4 GB", target=str(folder))


def test_number_types() -> None:
    cpu = torch.device("cpu")
    assert pick_dtype(None, cpu) is torch.float32
    assert pick_dtype("bfloat16", cpu) is torch.bfloat16
    with pytest.raises(LoadError, match="dtype 'int3' is unknown"):
        pick_dtype("int3", cpu)


@pytest.mark.parametrize(
    ("bf16", "family", "expected"),
    [(True, "llama", torch.bfloat16), (False, "llama", torch.float16), (False, "qwen2", torch.float32)],
)
def test_qwen2_is_never_silently_in_fp16(
    monkeypatch: pytest.MonkeyPatch, bf16: bool, family: str, expected: torch.dtype
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: bf16)
    assert pick_dtype(None, torch.device("cuda"), family) is expected
    assert bool(loading._dtype_notes(torch.float16, family)) == (family == "qwen2")


@pytest.mark.parametrize(("name", "sentence"), [("tpu9", "unknown"), ("cuda:0", "no CUDA device")])
def test_devices_that_are_not_there(monkeypatch: pytest.MonkeyPatch, name: str, sentence: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(LoadError, match=sentence):
        pick_device(name)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_fp16_head_follows_its_target(target: Path, tmp_path: Path, dtype: str) -> None:
    half = {name: tensor.half() for name, tensor in head_tensors().items()}
    pair = load(str(target), str(write_head(tmp_path / "head", half)), dtype=dtype)
    assert pair.info.target.dtype == dtype and pair.info.head is not None and pair.info.head.dtype == dtype
    run = generate(pair, prompt_of(9), Settings(seed=0, max_new_tokens=12))
    assert run.new_tokens == 12


def test_layers_may_lie_anywhere(target: Path, tmp_path: Path) -> None:
    """accelerate keeps a layer, the embedding and the LM head on disk and brings them when needed."""
    head = str(write_head(tmp_path / "head", head_tensors()))
    plain = load(str(target), head)
    spread = load(str(target), head, device="auto")
    assert drafts(spread)[0] == drafts(plain)[0]
    assert drafts(spread)[1] == pytest.approx(drafts(plain)[1], abs=1e-4)
    places = {
        "model.embed_tokens": "disk",
        "model.layers.0": "cpu",
        "model.layers.1": "disk",
        "model.norm": "cpu",
        "model.rotary_emb": "cpu",
        "lm_head": "disk",
    }
    model = dispatch_model(
        tiny_model(), places, main_device="cpu", offload_dir=str(tmp_path / "off"), force_hooks=True
    )
    runner = TransformersTarget(model, frozenset())
    drafter = head_loading.fit(head_loading.read(Path(head)), runner, model.config)
    pair = Pair(runner, drafter, byte_tokenizer(), plain.info)
    asked = Settings(seed=0, max_new_tokens=12)
    assert generate(pair, prompt_of(9), asked).token_ids == generate(plain, prompt_of(9), asked).token_ids


def test_a_failed_load_leaves_the_old_pair_working(target: Path, tmp_path: Path) -> None:
    pair = load(str(target), str(write_head(tmp_path / "head", head_tensors())))
    before = drafts(pair)
    says("neither a folder", target="/no/such")
    assert drafts(pair) == before


def test_every_parameter_of_a_head_is_from_its_file(tmp_path: Path) -> None:
    """No tensor is left as it was made: the module starts on the meta device."""
    tensors: dict[str, Tensor] = head_tensors()
    module = head_files.build_module("head", head_config(), dict(tensors))
    assert isinstance(module, HeadModule)
    for name, value in module.state_dict().items():
        assert torch.equal(value, tensors[name])


def test_an_unordered_draft_vocabulary_is_refused(target: Path, tmp_path: Path) -> None:
    folder = write_head(tmp_path / "head", head_tensors())
    save_file({"token_ids": torch.tensor([3, 3, 5])}, folder / "draft_vocabulary.safetensors")
    says("each token id once, in ascending order", target=str(target), head=str(folder))
    save_file({"token_ids": torch.tensor([3, 999])}, folder / "draft_vocabulary.safetensors")
    says(r"outside 0..256", target=str(target), head=str(folder))
