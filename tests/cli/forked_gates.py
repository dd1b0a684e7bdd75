"""Runs many command lines of the gate, each in a process of its own that is forked from this one.

They are the arguments in JSON on standard input, the results JSON on standard output. A hundred
interpreters that each import the program anew would take minutes on a busy machine.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from typing import NoReturn

from nodecheck.__main__ import main
from nodecheck.diagnose import rules

LOADED = ("nodecheck.cli.gate", "nodecheck.cli.inputs", "nodecheck.cli.models", "nodecheck.plan")

Result = tuple[int, str, str]


def run(arguments: list[str]) -> Result:
    """Exit status, standard output and standard error."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        pid = os.fork()
        if pid == 0:
            _be_nodecheck(arguments, output.fileno(), error.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        output.seek(0)
        error.seek(0)
        return status, output.read().decode(), error.read().decode()


def _be_nodecheck(arguments: list[str], output: int, error: int) -> NoReturn:
    status = 125
    try:
        os.dup2(output, 1)
        os.dup2(error, 2)
        sys.argv = ["nodecheck", "gate", *arguments]
        main()
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    list(rules())
    results = [run(arguments) for arguments in json.load(sys.stdin)]
    json.dump(results, sys.stdout)
