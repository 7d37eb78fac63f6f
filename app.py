"""Starts the demo: ``python app.py`` serves http://127.0.0.1:7860 (port from GRADIO_SERVER_PORT or PORT)."""

from app.ui import build_demo, launch_options

demo = build_demo()

if __name__ == "__main__":
    demo.launch(**launch_options())
