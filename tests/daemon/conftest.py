from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.daemon.served import Served, served, tree_pass


@pytest.fixture
def its() -> Iterator[Served]:
    """The real server, with a pass that was made of a captured tree."""
    with served(tree_pass()) as made:
        yield made
