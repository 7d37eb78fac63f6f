"""Recorded runs, and traces in and out: the menu, the import and the export, wired to the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from app import files, page_file, session
from app.events import QUICK
from app.gallery import Gallery
from app.notes import note_line
from app.session import Look, Source, Visit
from app.view import Parts, updates

TAKE_FILE = "() => { setTimeout(() => document.getElementById('saved-file').click(), 50); }"


def first_visit(gallery: Gallery) -> Visit:
    """The recorded run of the first paint."""
    visit = recorded_visit(gallery, gallery.names()[0])
    assert visit is not None
    return visit


def recorded_visit(gallery: Gallery, name: str | None) -> Visit | None:
    """A recorded run by its name, beside the plain decoding that was recorded with it."""
    run = gallery.read(name) if name else None
    if run is None or name is None:
        return None
    return Visit(run, Source.RECORDED, name=name, baseline=gallery.baseline(name))


@dataclass(frozen=True)
class Shelf:
    """The menu of recorded runs, the ways out and the way in."""

    menu: gr.Dropdown
    export: gr.Button
    page: gr.Button
    file: gr.DownloadButton
    upload: gr.UploadButton


def build(gallery: Gallery) -> Shelf:
    """The menu of recorded runs, export and import, in the open context."""
    with gr.Row(elem_id="library"):
        menu = gr.Dropdown(
            [(entry.title, entry.name) for entry in gallery.menu()],
            value=None,
            label="Open a recorded run",
            elem_id="recorded",
            scale=3,
            min_width=240,
        )
        export = gr.Button("Save this run", elem_id="export", size="md", scale=1, min_width=140)
        page = gr.Button("Save as a page", elem_id="export-page", size="md", scale=1, min_width=140)
        upload = gr.UploadButton(
            "Open a saved run", file_types=[".json"], elem_id="import", size="md", scale=1, min_width=140
        )
        # A download button sends the file it already has; ours is written when it is asked for.
        file = gr.DownloadButton(elem_id="saved-file", visible="hidden")
    return Shelf(menu, export, page, file, upload)


def wire(
    demo: gr.Blocks,
    gallery: Gallery,
    shelf: Shelf,
    parts: Parts,
    visit_state: gr.State,
    look_state: gr.State,
    note: gr.HTML,
) -> None:
    """Events of the library, and the link that opens a recorded run at a step and a node."""
    outputs = [visit_state, note, look_state, *parts.all()]

    def show(visit: Visit, before: Look, look: Look, words: str) -> list[Any]:
        return [visit, note_line(words), *updates(visit, session.kept(before, look), None)]

    def nothing(words: str | None = None) -> list[Any]:
        line = gr.skip() if words is None else note_line(words, fault=True)
        return [gr.skip(), line, *(gr.skip() for _ in range(len(outputs) - 2))]

    def on_menu(name: str | None, before: Look) -> list[Any]:
        visit = recorded_visit(gallery, name)
        if visit is None:
            return nothing()
        return show(visit, before, session.opening(visit.run), "A recorded run.")

    def on_upload(path: str | None, before: Look) -> list[Any]:
        if not path:
            return nothing()
        try:
            imported = files.import_trace(Path(path))
            look = session.opening(imported.run)
            return show(Visit(imported.run, Source.IMPORTED), before, look, imported.note)
        except files.TraceFileError as fault:
            return nothing(str(fault))

    def on_link(before: Look, request: gr.Request) -> list[Any]:
        asked = dict(request.query_params)
        named = recorded_visit(gallery, asked.get("run"))
        if "run" in asked and named is None:
            return nothing("The link names a recorded run that is not here; this is another one.")
        if named is None and "step" not in asked:
            return nothing()
        visit = named or first_visit(gallery)
        look = session.from_query(visit.run, asked)
        return show(visit, before, look, "A recorded run, opened from a link.")

    shelf.menu.input(on_menu, [shelf.menu, look_state], outputs, **QUICK)
    shelf.upload.upload(on_upload, [shelf.upload, look_state], outputs, **QUICK)
    demo.load(on_link, look_state, outputs, **QUICK)
    _saving_events(shelf, visit_state, note)


def _saving_events(shelf: Shelf, visit_state: gr.State, note: gr.HTML) -> None:
    """The run as a trace or as a page: the file is written, then the browser takes it."""

    def on_export(visit: Visit) -> list[Any]:
        return [
            str(files.export_trace(visit.run)),
            note_line("The run is saved; open it here again any time."),
        ]

    def on_page(visit: Visit) -> list[Any]:
        page = page_file.saved_page(visit)
        return [str(files.written(visit.run, "html", page.text)), note_line(f"Saved as a page. {page.note}")]

    for button, save in ((shelf.export, on_export), (shelf.page, on_page)):
        button.click(save, visit_state, [shelf.file, note], **QUICK).success(None, js=TAKE_FILE)
