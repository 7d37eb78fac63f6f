"""Recorded runs, and traces in and out: the menu, the import and the export, wired to the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from app import files, session
from app.gallery import Gallery
from app.notes import note_line
from app.session import Look, Source, Visit
from app.view import Parts, updates

QUICK: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}


def first_visit(gallery: Gallery) -> Visit:
    """The recorded run of the first paint."""
    name = gallery.names()[0]
    run = gallery.read(name)
    assert run is not None
    return Visit(run=run, source=Source.RECORDED, name=name)


def build(gallery: Gallery) -> tuple[gr.Dropdown, gr.DownloadButton, gr.UploadButton]:
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
        export = gr.DownloadButton("Save this run", elem_id="export", size="md", scale=1, min_width=140)
        upload = gr.UploadButton(
            "Open a saved run", file_types=[".json"], elem_id="import", size="md", scale=1, min_width=140
        )
    return menu, export, upload


def wire(
    demo: gr.Blocks,
    gallery: Gallery,
    made: tuple[gr.Dropdown, gr.DownloadButton, gr.UploadButton],
    parts: Parts,
    visit_state: gr.State,
    look_state: gr.State,
    note: gr.HTML,
) -> None:
    """Events of the library, and the link that opens a recorded run at a step and a node."""
    menu, export, upload = made
    outputs = [visit_state, note, look_state, *parts.all()]

    def show(visit: Visit, look: Look, words: str) -> list[Any]:
        return [visit, note_line(words), *updates(visit, look, None)]

    def nothing(words: str | None = None) -> list[Any]:
        line = gr.skip() if words is None else note_line(words, fault=True)
        return [gr.skip(), line, *(gr.skip() for _ in range(len(outputs) - 2))]

    def on_menu(name: str | None) -> list[Any]:
        run = gallery.read(name) if name else None
        if run is None:
            return nothing()
        return show(Visit(run, Source.RECORDED, name=name), session.opening(run), "A recorded run.")

    def on_upload(path: str | None) -> list[Any]:
        if not path:
            return nothing()
        try:
            imported = files.import_trace(Path(path))
            return show(Visit(imported.run, Source.IMPORTED), session.opening(imported.run), imported.note)
        except files.TraceFileError as fault:
            return nothing(str(fault))

    def on_link(request: gr.Request) -> list[Any]:
        asked = dict(request.query_params)
        run = gallery.read(asked["run"]) if "run" in asked else None
        if "run" in asked and run is None:
            return nothing("The link names a recorded run that is not here; this is another one.")
        if run is None and "step" not in asked:
            return nothing()
        visit = Visit(run, Source.RECORDED, name=asked["run"]) if run is not None else first_visit(gallery)
        return show(visit, session.from_query(visit.run, asked), "A recorded run, opened from a link.")

    menu.input(on_menu, menu, outputs, **QUICK)
    upload.upload(on_upload, upload, outputs, **QUICK)
    demo.load(on_link, None, outputs, **QUICK)
    export.click(lambda visit: str(files.export_trace(visit.run)), visit_state, export, **QUICK)
