"""``python app.py`` serves the demo at http://127.0.0.1:7860; ``--help`` says what else there is."""

import os
import sys

from app import cli, space

serving = cli.parse(sys.argv[1:]) if __name__ == "__main__" else None
os.environ |= serving.variables() if serving else {}
space.prepare()

from app.ui import build_demo, launch_options  # noqa: E402  --help must not wait for the page's packages

demo = build_demo()

if serving is not None:
    demo.launch(**(launch_options() | serving.launch_options()))
