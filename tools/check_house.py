#!/usr/bin/env python3
"""Keeps the house: a folder of src/ includes only folders above it, and only those that its CMake target names.

Usage: tools/check_house.py [ROOT]. Exit 1 with one line per broken rule.
"""

import pathlib
import re
import sys

# From the top down; docs/architecture.md draws it.
CONTROL_PLANE = ["base", "machine", "cluster", "corpus", "cost", "schedule", "plan", "sim", "report", "comm"]
DATA_PLANE = ["tensor", "loader", "attention", "memory", "model", "pipeline", "optim", "checkpoint", "train"]
ORDER = CONTROL_PLANE + DATA_PLANE + ["python", "cli"]
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)
FORBIDDEN_ABOVE = re.compile(r"^(torch|ATen|c10|mpi\.h|cblas\.h)")


def direct_deps(cmake_text):
    """Module name -> DEPS of each weft_add_module call."""
    deps = {}
    for call in re.findall(r"weft_add_module\(([^)]*)\)", cmake_text):
        words = call.split()
        name = words[words.index("NAME") + 1]
        listed = []
        if "DEPS" in words:
            for word in words[words.index("DEPS") + 1:]:
                if word in ("LIBS", "SOURCES", "EXACT", "TORCH", "NAME"):
                    break
                listed.append(word)
        deps[name] = deps.get(name, []) + listed  # one call per way to build it
    return deps


def reachable(name, deps):
    found, stack = set(), [name]
    while stack:
        for dep in deps.get(stack.pop(), []):
            if dep not in found:
                found.add(dep)
                stack.append(dep)
    return found


def module_of(path, src):
    """The target that a file belongs to: comm_mpi for comm/mpi/, where that folder has a CMakeLists.txt of its own."""
    folder = path.parent
    while not (folder / "CMakeLists.txt").exists():
        folder = folder.parent
    return "_".join(folder.relative_to(src).parts)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    src = root / "src"
    errors = []
    deps = {}
    for folder in sorted(p for p in src.iterdir() if p.is_dir()):
        if folder.name not in ORDER:
            errors.append(f"src/{folder.name}: not a room of the house")
        for cmake in folder.rglob("CMakeLists.txt"):
            for name, listed in direct_deps(cmake.read_text()).items():
                deps[name] = deps.get(name, []) + listed
    for folder in ORDER:
        for path in sorted((src / folder).rglob("*.[hc]*")):
            if path.suffix not in (".h", ".cc"):
                continue
            where = path.relative_to(root)
            module = module_of(path, src)
            for bracket, target in INCLUDE.findall(path.read_text()):
                if folder in CONTROL_PLANE and FORBIDDEN_ABOVE.match(target):
                    if not (folder == "comm" and target == "mpi.h"):
                        errors.append(f"{where}: the control plane includes {target}")
                head = target.split("/")[0]
                if bracket == "<" or head not in ORDER or head == folder:
                    continue
                if ORDER.index(head) > ORDER.index(folder):
                    errors.append(f"{where}: includes {target}, which lies below {folder}/")
                elif folder not in ("cli", "python") and head not in reachable(module, deps):
                    errors.append(f"{where}: includes {target}, but weft_{module} does not list {head} in DEPS")
    for line in errors:
        print(line)
    if not errors:
        print(f"the house is in order: {len(deps)} modules")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
