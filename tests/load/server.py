"""The server of the load test: the whole page, and ``/ready`` once its pair is loaded."""

from __future__ import annotations

import sys

from app import space


def main() -> None:
    port, pair = int(sys.argv[1]), sys.argv[2]
    space.prepare()
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    from app.crowd import CrowdRunner
    from app.pair_holder import State
    from app.runner import Runner
    from app.ui import build_demo, launch_options

    if pair == "tiny":
        from tests.tiny import tiny_pair

        runner = CrowdRunner(Runner(lambda say: tiny_pair()))
    else:
        runner = CrowdRunner()
    runner.start_loading()

    def ready(_request: object) -> PlainTextResponse:
        status = runner.status()
        return PlainTextResponse("ready" if status.state is State.READY else status.words)

    options = launch_options()
    options["app_kwargs"]["routes"].append(Route("/ready", ready))
    build_demo(runner).launch(**(options | {"server_port": port, "quiet": True}))


if __name__ == "__main__":
    main()
