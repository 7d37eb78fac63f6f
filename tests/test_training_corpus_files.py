"""Shards, pieces, batches, the draft vocabulary, and where features come from."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eagle.training import features, shards
from eagle.training.errors import TrainingError
from eagle.training.reading import Reader
from eagle.training.start import draft_vocabulary
from tests.training_files import LENGTH, ROWS, save_corpus, tiny_source


@pytest.fixture
def corpus(tmp_path):
    return shards.read_corpus([save_corpus(tmp_path / "corpus")], 257)


def test_held_out_rows_are_never_trained_on_and_have_every_temperature(corpus):
    training = {(p.shard, p.row) for p in shards.pieces(corpus, 512, held_out=False)}
    tests = {(p.shard, p.row) for p in shards.pieces(corpus, 512, held_out=True)}
    assert not training & tests
    assert len(training | tests) == 2 * ROWS
    assert {float(corpus[s].temperature[r]) for s, r in tests} == {0.0, np.float32(0.7), 1.0}


@pytest.mark.parametrize("cut", [5, 7, 8, 24, 100])
def test_pieces_cover_each_row_once_in_parts_no_longer_than_the_cut(corpus, cut):
    rows: dict[tuple[int, int], list[int]] = {}
    for piece in shards.pieces(corpus, cut, held_out=False):
        assert 0 < piece.length <= cut
        rows.setdefault((piece.shard, piece.row), []).extend(range(piece.start, piece.stop))
    assert all(covered == list(range(LENGTH)) for covered in rows.values())


def test_batches_are_the_same_for_the_same_seed_and_epoch_and_meet_every_piece(corpus):
    every = shards.pieces(corpus, 10, held_out=False)
    first = shards.batches(every, 40, seed=1, epoch=0)
    assert first == shards.batches(every, 40, seed=1, epoch=0)
    assert first != shards.batches(every, 40, seed=1, epoch=1)
    assert first != shards.batches(every, 40, seed=2, epoch=0)
    assert sorted(p for batch in first for p in batch) == sorted(every)
    assert all(len({p.length for p in batch}) == 1 for batch in first)
    assert max(sum(p.length for p in batch) for batch in first) <= 40


def test_processes_share_an_epoch_evenly(corpus):
    every = shards.pieces(corpus, 24, held_out=False)
    assert len(shards.batches(every, 24 * 4, seed=0, epoch=0, world=4)) % 4 == 0
    with pytest.raises(TrainingError, match="processes need one each"):
        shards.batches(every[:1], 100, seed=0, epoch=0, world=2)


def test_a_damaged_shard_is_named(tmp_path):
    folder = save_corpus(tmp_path, shards=1)
    path = folder / "shard_00000.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TrainingError, match=r"shard_00000\.npz can not be read"):
        shards.read_corpus([folder], 257)


def test_token_ids_beyond_the_target_and_empty_folders_are_refused(tmp_path):
    folder = save_corpus(tmp_path / "a", shards=1)
    with pytest.raises(TrainingError, match="but the target has 10 tokens"):
        shards.read_corpus([folder], 10)
    (tmp_path / "b").mkdir()
    with pytest.raises(TrainingError, match="no shard"):
        shards.read_corpus([tmp_path / "b"], 257)


def test_the_vocabulary_holds_the_most_frequent_tokens_and_every_end_token(corpus):
    source = tiny_source()
    ids = draft_vocabulary(source, corpus, 20).tolist()
    counts = shards.token_counts(corpus, 257)
    assert ids == sorted(set(ids)) and len(ids) == 20
    assert source.target.end_tokens <= set(ids)
    others = [i for i in range(257) if i not in ids]
    assert min(counts[i] for i in ids if i not in source.target.end_tokens) >= max(counts[others])
    assert draft_vocabulary(source, corpus, 0) is None


def test_cached_features_equal_fresh_ones_and_a_kill_leaves_only_whole_files(corpus, tmp_path):
    source, folder = tiny_source(), tmp_path / "features"
    folder.mkdir()
    (folder / "shard_00000.npy.1.unfinished").write_bytes(b"half a file")
    chosen = shards.pieces(corpus, 9, held_out=False)[:3]
    chosen = [p for p in chosen if p.length == chosen[0].length]
    cached = features.cached(source, corpus, folder)
    fresh = features.FreshFeatures(source, corpus)
    assert {p.name for p in folder.glob("*.npy")} == {"shard_00000.npy", "shard_00001.npy"}
    torch.testing.assert_close(cached.of(chosen).float(), fresh.of(chosen), rtol=2e-3, atol=2e-3)


def test_features_of_another_target_or_corpus_are_refused(corpus, tmp_path):
    source = tiny_source()
    features.cached(source, corpus, tmp_path)
    wrong = np.load(tmp_path / "shard_00001.npy")
    np.save(tmp_path / "shard_00001.npy", wrong[::-1])
    with pytest.raises(TrainingError, match=r"shard_00001\.npy are not this target's"):
        features.cached(source, corpus, tmp_path)
    np.save(tmp_path / "shard_00001.npy", wrong[:, :-1])
    with pytest.raises(TrainingError, match="have shape"):
        features.cached(source, corpus, tmp_path)


def test_a_pair_joins_token_t_plus_1_with_feature_t_and_counts_by_the_token_it_helps_to_guess(corpus):
    source = tiny_source()
    reader = Reader(source, corpus, features.FreshFeatures(source, corpus))
    piece = shards.pieces(corpus, 24, held_out=False)[0]
    batch = reader.batch([piece], prompt_weight=0.25)
    tokens = reader.tokens([piece])
    whole = source.features(tokens)
    torch.testing.assert_close(batch.features, whole[:, :-1])
    torch.testing.assert_close(batch.wanted, whole[:, 1:])
    torch.testing.assert_close(batch.embeddings, source.target.embed(tokens[:, 1:]))
    # The corpus's first three tokens are a prompt: token 2 is guessed with position 0's pair.
    assert batch.weight[0, :3].tolist() == [0.25, 1.0, 1.0]
