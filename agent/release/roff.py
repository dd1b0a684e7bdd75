"""Text as man(7) wants it."""

from __future__ import annotations

import re

_CHARACTERS = str.maketrans(
    {
        "\\": r"\(rs",
        "-": r"\-",
        "'": r"\(aq",
        '"': r"\(dq",
        "`": r"\(ga",
        "^": r"\(ha",
        "~": r"\(ti",
    }
)


def escape(text: str) -> str:
    """The text with no character that roff would take for its own."""
    escaped = text.translate(_CHARACTERS)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def bold(text: str) -> str:
    """In bold: what is typed as it stands."""
    return f"\\fB{escape(text)}\\fR"


def italic(text: str) -> str:
    """In italics: what stands for something else."""
    return f"\\fI{escape(text)}\\fR"


def prose(text: str) -> list[str]:
    """Paragraphs of a command's help; one that click must not wrap keeps its lines."""
    lines: list[str] = []
    for paragraph in re.split(r"\n[ \t]*\n", text.partition("\f")[0].strip()):
        lines += [".PP"] if lines else []
        if paragraph.startswith("\b"):
            kept = paragraph.lstrip("\b").strip("\n").splitlines()
            lines += [".nf", *map(escape, kept), ".fi"]
        else:
            lines.append(escape(" ".join(paragraph.split())))
    return lines


def section(title: str, lines: list[str]) -> list[str]:
    """Its heading and lines; nothing where there are none."""
    return [f".SH {title}", *lines] if lines else []


def listed(entries: list[tuple[str, str]]) -> list[str]:
    """Tags, already in roff, each with its text."""
    return [line for tag, text in entries for line in (".TP", tag, escape(text))]
