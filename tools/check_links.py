#!/usr/bin/env python3
"""Checks that every relative link and every `src/...`-like path in README.md and docs/ exists.

Usage: tools/check_links.py [ROOT]. Exit 1 with one line per dead link.
"""

import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:src|tests|docs|configs|examples|tools|cmake)/[\w./-]+)`")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    dead = []
    checked = 0
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        text = page.read_text()
        for target in LINK.findall(text):
            if "://" in target:
                continue
            checked += 1
            if not (page.parent / target).exists():
                dead.append(f"{page.relative_to(root)}: dead link {target}")
        for target in PATH.findall(text):
            checked += 1
            if not (root / target).exists():
                dead.append(f"{page.relative_to(root)}: no such path {target}")
    print("\n".join(dead) or f"{checked} links and paths, none dead")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
