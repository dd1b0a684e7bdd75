"""`nodecheck` and `python -m nodecheck`."""

import os
import signal


def main() -> None:
    """The program. Ctrl-C while it is being loaded ends it at once, without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if os.environ.get("_NODECHECK_COMPLETE"):  # a shell's script asks, as click has it
        from nodecheck.cli.completion import main as run
    else:
        from nodecheck.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
