#!/usr/bin/env python3
"""Checks that every file includes only what its floor may include.

A file belongs to the first place below whose pattern matches its path; a file
that belongs to no place is an error, so that each new file is put on a floor
on purpose. doc/design.md tells what the floors are.
"""
import pathlib
import re
import sys

# Place -> pattern of paths. First match counts.
PLACES = [
    ("base", r"codec/(base|bytes|format|tokens)\.h"),
    ("base", r"codec/(status|huffman)\.[ch]"),
    ("codebooks", r"codebooks/\w+\.[ch]"),
    ("public", r"codec/(array|terp|cd_values)\.h"),
    ("cpu", r"codec/cpu_\w+\.[ch]"),
    ("model", r"codec/(array|cd_values|chunk|frame|inspect|layout|reduce|terp)\.c"),
    ("model", r"codec/(choices|contexts|engine|frame|layout|lorenzo|reduce|spline)\.h"),
    ("model", r"codec/cuda_loader\.[ch]"),
    ("gpu", r"gpu/\w+\.(c|h|cu|cuh)"),
    ("header", r"filter/(h5z_terp|terp_h5|h5_batch|h5_block)\.h"),
    ("filter", r"filter/\w+\.[ch]"),
    ("device user", r"bench/cuda_\w+\.(c|cpp|cu|h|cuh)"),
    ("user", r"(tools|examples|bench|cmake/consumer)/\w+\.[ch]"),
    ("stage test", r"h5tests/test_stages\.c"),
    ("emulator", r"h5tests/cuda_emulator/[\w/]+\.(h|cuh|cpp)"),
    ("device test", r"h5tests/((test_)?cuda_\w+|test_h5_blocks)\.(c|cpp|cu|h|cuh)"),
    ("device test", r"h5tests/fake_cuda_engine\.c"),
    ("test", r"(h5tests|fuzz)/\w+\.[ch]"),
]

MODEL = {"base", "codebooks", "public", "model"}

# Place -> the places whose files it may include.
MAY_INCLUDE = {
    "base": {"base"},
    "codebooks": {"base", "codebooks"},
    "public": {"base", "public"},
    "model": MODEL,
    "cpu": MODEL | {"cpu"},
    "gpu": MODEL | {"gpu"},
    "header": {"header", "public"},
    "filter": {"header", "filter", "public", "base"},
    "user": {"header", "user", "public", "base"},
    # Benchmarks of the CUDA engine, and of the CPU's same stages.
    "device user": MODEL | {"header", "user", "gpu", "cpu", "device user"},
    # Tests reach below the public headers to write bad streams.
    "test": MODEL | {"header", "test"},
    "stage test": MODEL | {"cpu", "test"},
    # A stand-in for CUDA, and tests that compare the stages of both engines.
    "emulator": {"emulator"},
    "device test": MODEL | {"header", "cpu", "gpu", "test", "emulator", "device test"},
}

# Headers from outside that only some places may include.
RESTRICTED = [
    (r"(hdf5|H5\w*)\.h", {"header", "filter", "user", "test", "device user", "device test"}),
    (r"(cuda\w*\.h|cub/|cooperative_groups|nv\w*/)",
     {"gpu", "emulator", "device test", "device user"}),
]

SUFFIXES = {".c", ".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def place_of(path):
    for place, pattern in PLACES:
        if re.fullmatch(pattern, path):
            return place
    return None


def sources(root):
    """C and CUDA files of the tree, without builds and hidden folders."""
    found = []
    for path in root.rglob("*"):
        parts = path.relative_to(root).parts
        if path.suffix in SUFFIXES and not parts[0].startswith(("build", ".")):
            found.append("/".join(parts))
    return sorted(found)


def check(root, paths):
    """Yields one message for each include or file that breaks a rule."""
    by_name = {}
    for path in paths:
        if path.endswith((".h", ".cuh")):
            by_name.setdefault(pathlib.PurePath(path).name, []).append(path)
    for name, same in by_name.items():
        if len(same) > 1:
            yield f"{name}: two headers have this name: {', '.join(same)}"

    for path in paths:
        place = place_of(path)
        if place is None:
            yield f"{path}: stands on no floor (scripts/check_floors.py)"
            continue
        text = (root / path).read_text(encoding="utf-8")
        for quote, name in INCLUDE.findall(text):
            target = by_name.get(pathlib.PurePath(name).name, [None])[0]
            if quote == '"' and target is None:
                yield f'{path}: includes "{name}", which is not in the tree'
            elif quote == '"':
                below = place_of(target)
                if below is not None and below not in MAY_INCLUDE[place]:
                    yield f"{path} ({place}): includes {target} ({below})"
            for pattern, allowed in RESTRICTED:
                if (quote == "<" and re.match(pattern, name) and
                        place not in allowed):
                    yield f"{path} ({place}): includes <{name}>"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    paths = sources(root)
    if not paths:
        sys.exit("no source files found")
    errors = list(check(root, paths))
    for error in errors:
        print(error)
    if errors:
        sys.exit(1)
    print(f"{len(paths)} files, each on its floor")


if __name__ == "__main__":
    main()
