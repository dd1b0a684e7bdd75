"""`nodecheck` and `python -m nodecheck`."""

import signal


def main() -> None:
    """The program. Ctrl-C while it is being loaded ends it at once, without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from nodecheck.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
