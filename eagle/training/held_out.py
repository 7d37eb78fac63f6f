"""Agreement of a head folder on the held-out rows of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from eagle import head_files
from eagle.training import agreement, features, shards
from eagle.training.reading import Reader, scored_rows
from eagle.training.source import Source

CUT = 512


def measure_folder(
    source: Source, folder: Path, corpus: Sequence[Path], cache: Path | None, draft_steps: int = 6
) -> dict[str, Any]:
    """What :func:`eagle.training.agreement.measure` finds over every held-out row, answers only."""
    module = head_files.build_module(
        folder.name, head_files.read_config(folder), head_files.read_tensors(folder)
    )
    module = module.float().to(source.target.device)
    vocabulary = head_files.read_vocabulary(folder, source.target.vocab_size)
    read = shards.read_corpus(corpus, source.target.vocab_size)
    store = features.cached(source, read, cache) if cache else features.FreshFeatures(source, read)
    tests = shards.pieces(read, CUT, held_out=True)
    batches = agreement.held_out(Reader(source, read, store), tests, vocabulary)
    rows = scored_rows(source, vocabulary).float()
    return agreement.measure(module, tqdm(batches, desc="held out", unit=" batches"), rows, draft_steps)
