#!/usr/bin/env python3
"""Checks that every file includes only what its floor may include, and, of the
objects of a build, that they call only what it may call:

    check_floors.py [BUILD_FOLDER]

A file belongs to the first place below whose pattern matches its path; a file
that belongs to no place is an error, so that each new file is put on a floor
on purpose. doc/design/README.md tells what the floors are.
"""
import os
import pathlib
import re
import subprocess
import sys

# The floors of terp repack, lowest first. A file of tools/repack knows its own
# header and those of lower floors; other files there are for all of them.
REPACK = [f"tools/repack/{name}" for name in (
    "request", "objects", "lists", "types", "regions", "references",
    "dataset_list", "filters", "split", "salvage", "values", "plan", "job",
    "bounds", "warn", "compress", "record", "sample", "structure", "output",
    "repack")]

# Place -> pattern of paths. First match counts.
PLACES = [
    ("portable", r"portable/\w+/\w+\.[ch]"),
    *((floor, rf"{floor}\.[ch]") for floor in REPACK),
    ("public", r"codec/api/(terp|terp_status)\.h"),
    ("format", r"codec/format/\w+\.[ch]"),
    ("codebooks", r"codebooks/\w+\.[ch]"),
    ("second decoder", r"decoder/terp_decode\.c"),
    ("bound", r"codec/model/bound\.h"),
    ("model", r"codec/model/\w+\.[ch]"),
    ("contract", r"codec/engine\.h"),
    ("api", r"codec/api/\w+\.[ch]"),
    ("cpu", r"cpu/(\w+/)?\w+\.[ch]"),
    ("gpu", r"gpu/\w+/\w+\.(c|h|cu|cuh)"),
    ("header", r"filter/(plugin/h5z_terp|h5/\w+)\.h"),
    ("filter", r"filter/\w+/\w+\.[ch]"),
    ("connector", r"vol/\w+\.[ch]"),
    ("device user", r"bench/cuda_\w+\.(c|cpp|cu|h|cuh)"),
    ("user", r"(tools|tools/\w+|examples|bench|cmake/consumer)/\w+\.[ch]"
             r"|examples/amrex/\w+\.(h|cpp)"),
    ("stage test", r"h5tests/codec/test_(estimates|lossless|pointwise|repeats|reserve|stages|tails|tight_bounds)\.c"),
    ("emulator", r"h5tests/emulator/[\w/]+\.(h|cuh|cpp)"),
    ("device test", r"h5tests/gpu/\w+\.(c|cpp|cu|h|cuh)"),
    ("device test", r"h5tests/engine/(fake_cuda_engine|test_device)\.c"),
    ("device test", r"h5tests/(filter/test_h5_blocks\.c|support/cuda_buffer\.[ch])"),
    ("connector test", r"(h5tests/vol/\w+\.[ch]|fuzz/fuzz_rules\.c)"),
    ("plugin test", r"h5tests/filter/test_filter_(dataset|program)\.c"),
    ("tool test", r"(fuzz/(fuzz_files|datasets)|h5tests/tools/test_valid)\.c"),
    ("test", r"(h5tests/\w+|fuzz)/\w+\.[ch]"),
]

MODEL = {"public", "format", "codebooks", "bound", "model"}

# Place -> the places whose files it may include.
MAY_INCLUDE = {
    "portable": {"portable"},
    "public": {"public"},
    "format": {"public", "format"},
    "codebooks": {"public", "format", "codebooks"},
    "second decoder": set(), # a file of its own
    "bound": {"public", "format", "bound"},
    "model": MODEL,
    "contract": MODEL,
    "api": MODEL | {"contract", "api"},
    "cpu": MODEL | {"contract", "cpu"},
    "gpu": MODEL | {"contract", "gpu"},
    "header": {"header", "public", "api", "format"},
    "filter": {"header", "filter", "public", "api", "format", "bound"},
    "connector": {"connector", "header", "filter", "public", "api", "format"},
    "user": {"header", "user", "public", "api", "format", "bound"},
    # Benchmarks of the CUDA engine, and of the CPU's same stages.
    "device user": MODEL | {"header", "user", "contract", "api", "gpu", "cpu",
                            "device user"},
    # Tests reach below the public headers to write bad streams.
    "test": MODEL | {"header", "contract", "api", "test", "second decoder"},
    "connector test": {"connector", "header", "filter", "test",
                       "connector test"},
    "plugin test": {"filter", "header", "format", "test"},
    "tool test": {"user", "filter", "header", "public", "api", "format", "test"},
    "stage test": MODEL | {"cpu", "test"},
    # A stand-in for CUDA, and tests that compare the stages of both engines.
    "emulator": {"emulator"},
    "device test": MODEL | {"header", "contract", "api", "cpu", "gpu", "test",
                            "emulator", "device test"},
}

for height, floor in enumerate(REPACK):
    MAY_INCLUDE[floor] = MAY_INCLUDE["user"].union(REPACK[: height + 1])

# Place -> the places whose functions it may call. A public header is included by
# all, but what it declares stands above the engines, which never call up.
MAY_CALL = {place: MAY_INCLUDE[place] for place in
            ("format", "codebooks", "api", "cpu", "gpu", "filter",
             "connector")}
MAY_CALL["api"] = MAY_CALL["api"] | {"cpu"}

# Headers from outside that only some places may include.
RESTRICTED = [
    (r"(hdf5|H5\w*)\.h", {"header", "filter", "connector", "connector test", "plugin test", "tool test", "user", "test", "device user", "device test", *REPACK}),
    (r"(cuda\w*\.h|cub/|cooperative_groups|nv\w*/)",
     {"gpu", "emulator", "device test", "device user"}),
]

# Folders whose headers are named without them: those that are installed, and
# the stand-in for CUDA.
PUBLIC = ("codec/api", "filter/plugin", "filter/h5", "h5tests/emulator")

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
    known = set(paths)
    for path in paths:
        place = place_of(path)
        if place is None:
            yield f"{path}: stands on no floor (scripts/check_floors.py)"
            continue
        text = (root / path).read_text(encoding="utf-8")
        for quote, name in INCLUDE.findall(text):
            folder = pathlib.PurePath(path).parent
            # From the root, or beside the file; users name public headers as
            # they are installed.
            found = [target for target in (name, str(folder / name),
                                           *(f"{public}/{name}" for public in PUBLIC))
                     if target in known]
            if quote == '"' and not found:
                yield f'{path}: includes "{name}", which is not in the tree'
            elif quote == '"':
                below = place_of(found[0])
                if below is not None and below not in MAY_INCLUDE[place]:
                    yield f"{path} ({place}): includes {found[0]} ({below})"
            for pattern, allowed in RESTRICTED:
                if (quote == "<" and re.match(pattern, name) and
                        place not in allowed):
                    yield f"{path} ({place}): includes <{name}>"


def source_of(path):
    """What CMake compiled to the object at `path` in the build folder."""
    match = re.fullmatch(r"(.*?)/?CMakeFiles/[^/]+\.dir/(.*)\.o", path)
    if match is None:
        return None
    return os.path.normpath("/".join(match.groups()).replace("__", ".."))


def symbols_of(lines):
    """What an object defines, and what it leaves to others, as nm -gP tells."""
    defined, undefined = set(), set()
    for line in lines:
        name, kind = line.split()[:2]
        (undefined if kind in "Uvw" else defined).add(name)
    return defined, undefined


def check_calls(objects):
    """Yields one message for each call that breaks a rule; `objects` holds
    pairs of a source's path and its symbols."""
    definers = {}
    for path, (defined, _) in objects:
        if place_of(path) in MAY_CALL:
            for name in defined:
                definers.setdefault(name, set()).add(path)
    for path, (_, undefined) in objects:
        place = place_of(path)
        for name in sorted(undefined) if place in MAY_CALL else ():
            below = sorted(definers.get(name, ()))
            if below and not any(place_of(other) in MAY_CALL[place]
                                 for other in below):
                yield (f"{path} ({place}): calls {name} of {below[0]} "
                       f"({place_of(below[0])})")


def read_objects(build, paths):
    known = set(paths)
    objects = []
    for path in sorted(build.rglob("*.o")):
        source = source_of("/".join(path.relative_to(build).parts))
        if source in known:
            said = subprocess.run(["nm", "-gP", path], check=True,
                                  capture_output=True, text=True)
            objects.append((source, symbols_of(said.stdout.splitlines())))
    return objects


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    paths = sources(root)
    if not paths:
        sys.exit("no source files found")
    errors = list(check(root, paths))
    objects = []
    if len(sys.argv) > 1:
        objects = read_objects(pathlib.Path(sys.argv[1]), paths)
        errors += sorted(set(check_calls(objects)))
    for error in errors:
        print(error)
    if errors:
        sys.exit(1)
    print(f"{len(paths)} files and {len(objects)} objects, each on its floor")


if __name__ == "__main__":
    main()
