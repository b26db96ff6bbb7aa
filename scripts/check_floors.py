#!/usr/bin/env python3
"""Checks that every file includes only headers that its floor may include, that the
objects of a build call only functions that their floors may call, and that no two
files of a floor call each other, directly or through other files of the floor. It
also checks that no two CUDA files define a struct of the same name:

    check_floors.py [BUILD_FOLDER]

A file belongs to the first floor below whose pattern matches its path. A file
without a floor is an error: each new file must get a floor on purpose.
doc/design/README.md describes the floors.
"""
import functools
import os
import pathlib
import re
import subprocess
import sys

# The floors of terp repack, lowest first. A file may include its own header and
# headers of lower floors; all may include the other headers of tools/repack.
REPACK = [f"tools/repack/{name}" for name in (
    "request", "files", "objects", "lists", "types", "regions", "references",
    "dataset_list", "filters", "fill", "split", "salvage", "values", "mask", "plan", "job",
    "bounds", "warn", "compress", "record", "lossy", "sample", "structure", "output",
    "done", "copy", "many", "json", "repack")]

# Floor -> pattern of paths. The first match counts.
FLOORS = [
    ("portable", r"portable/\w+/\w+\.[ch]"),
    *((floor, rf"{floor}\.[ch]") for floor in REPACK),
    ("public", r"codec/api/(terp|terp_status)\.h"),
    ("format", r"codec/format/\w+\.[ch]"),
    ("codebooks", r"codebooks/\w+\.[ch]"),
    ("second decoder", r"decoder/terp_decode\.c"),
    ("bound", r"codec/model/(bound|carrier|fills)\.h"),
    ("model", r"codec/model/\w+\.[ch]"),
    ("contract", r"codec/engine\.h"),
    ("compose", r"codec/compose/\w+\.[ch]"),
    ("api", r"codec/api/\w+\.[ch]"),
    ("cpu", r"cpu/(\w+/)?\w+\.[ch]"),
    ("gpu", r"gpu/\w+/\w+\.(c|h|cu|cuh)"),
    ("gpu library", r"gpu/library\.cu"),
    ("host", r"filter/(types|dcpl|members|container)\.[ch]"),
    ("host", r"filter/plugin/(errors|host|linked_host|program|no_program)\.[ch]"),
    ("header", r"filter/(plugin/h5z_terp|h5/\w+)\.h"),
    ("filter", r"filter/\w+/\w+\.[ch]"),
    ("connector", r"vol/\w+\.[ch]"),
    ("operator", r"(adios2|pressio)/\w+\.(c|h|cpp)"),
    ("device user", r"bench/cuda_\w+\.(c|cpp|cu|h|cuh)"),
    ("user", r"(tools|tools/\w+|examples|bench|cmake/consumer)/\w+\.[ch]"
             r"|examples/(amrex/\w+\.(h|cpp)|\w+\.cpp)"),
    ("stage test", r"h5tests/codec/test_(estimates|lossless|pointwise|repeats|reserve|sections|stages|tails|tight_bounds)\.c"),
    ("emulator", r"h5tests/emulator/[\w/]+\.(h|cuh|cpp)"),
    ("device test", r"h5tests/gpu/\w+\.(c|cpp|cu|h|cuh)"),
    ("device test", r"h5tests/engine/(fake_cuda_engine|test_device)\.c"),
    ("device test", r"h5tests/(filter/test_h5_blocks\.c|support/cuda_buffer\.[ch])"),
    ("connector test", r"(h5tests/vol/\w+\.[ch]|fuzz/fuzz_rules\.c)"),
    ("plugin test", r"h5tests/filter/test_(container(_numbers)?|filter_(dataset|program)|nczarr_abi)\.c"),
    ("operator test", r"h5tests/(adios2|pressio)/\w+\.(c|cpp)"),
    ("tool test", r"(fuzz/(fuzz_files|fuzz_decode|make_corpus|datasets)|h5tests/tools/(mpi_patterns|test_(tool_types|valid)))\.c"),
    ("test", r"(h5tests/\w+|fuzz)/\w+\.[ch]"),
]

MODEL = {"public", "format", "codebooks", "bound", "model"}

# Floor -> the floors whose files it may include.
MAY_INCLUDE = {
    "portable": {"portable"},
    "public": {"public"},
    "format": {"public", "format"},
    "codebooks": {"public", "format", "codebooks"},
    "second decoder": set(), # stands alone
    "bound": {"public", "format", "bound"},
    "model": MODEL,
    "contract": MODEL,
    "compose": MODEL | {"contract", "compose"},
    "api": MODEL | {"contract", "compose", "api"},
    "cpu": MODEL | {"contract", "cpu"},
    "gpu": MODEL | {"contract", "gpu"},
    "gpu library": MODEL | {"contract", "compose", "gpu"},
    # One HDF5 library, by the names of its functions, and what it tells of types
    # and property lists: for the plugin, the connector, terp::h5 and the tool.
    "host": {"host", "header", "public", "api", "format", "bound"},
    "header": {"header", "public", "api", "format"},
    "filter": {"host", "header", "filter", "public", "api", "format", "bound"},
    "connector": {"connector", "host", "header", "filter", "public", "api",
                  "format"},
    "operator": {"operator", "public", "api", "format"},
    "user": {"host", "header", "user", "public", "api", "format", "bound"},
    # Benchmarks of the CUDA engine, and of the same stages on the CPU.
    "device user": MODEL | {"header", "user", "contract", "api", "gpu", "cpu",
                            "device user"},
    # Tests use internal headers to write bad streams.
    "test": MODEL | {"header", "contract", "compose", "api", "test",
                     "second decoder"},
    "connector test": {"connector", "host", "header", "filter", "test",
                       "connector test"},
    "operator test": {"operator", "public", "api", "format", "test"},
    "plugin test": {"filter", "host", "header", "format", "test"},
    "tool test": {"user", "host", "filter", "header", "public", "api", "format",
                  "test"},
    "stage test": MODEL | {"cpu", "test"},
    # The emulator of CUDA, and tests that compare the stages of both engines.
    "emulator": {"emulator"},
    "device test": MODEL | {"header", "contract", "compose", "api", "cpu",
                            "gpu", "test", "emulator", "device test"},
}

for height, floor in enumerate(REPACK):
    MAY_INCLUDE[floor] = MAY_INCLUDE["user"].union(REPACK[: height + 1])

# Place -> the places whose functions it may call. A public header is included by
# all, but what it declares stands above the engines, which never call up.
MAY_CALL = {place: MAY_INCLUDE[place] for place in
            ("format", "codebooks", "compose", "api", "cpu", "gpu", "gpu library",
             "host", "filter", "connector", "operator")}
MAY_CALL["api"] = MAY_CALL["api"] | {"cpu"}

# Headers of other projects that only some floors may include.
RESTRICTED = [
    (r"(hdf5|H5\w*)\.h", {"host", "header", "filter", "connector", "connector test", "plugin test", "tool test", "user", "test", "device user", "device test", *REPACK}),
    (r"(cuda\w*\.h|cub/|cooperative_groups|nv\w*/)",
     {"gpu", "emulator", "device test", "device user"}),
]

# Folders whose headers are included by name alone: installed headers, and the
# emulator of CUDA.
PUBLIC = ("codec/api", "filter/plugin", "filter/h5", "h5tests/emulator")

SUFFIXES = {".c", ".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


@functools.cache
def floor_of(path):
    for floor, pattern in FLOORS:
        if re.fullmatch(pattern, path):
            return floor
    return None


def sources(root):
    """terp's own C and CUDA files, outside of builds and hidden folders."""
    found = []
    for folder in root.iterdir():
        if not folder.name.startswith(("build", ".", "third_party")):
            found += ["/".join(path.relative_to(root).parts)
                      for path in (folder, *folder.rglob("*"))
                      if path.suffix in SUFFIXES]
    return sorted(found)


def check(root, paths):
    """Yields a message for each include or file that breaks a rule."""
    known = set(paths)
    for path in paths:
        floor = floor_of(path)
        if floor is None:
            yield f"{path}: has no floor (add it to scripts/check_floors.py)"
            continue
        text = (root / path).read_text(encoding="utf-8")
        for quote, name in INCLUDE.findall(text):
            folder = pathlib.PurePath(path).parent
            # Names start from the root, from the file's folder, or for public
            # headers from the installed folder.
            found = [target for target in (name, str(folder / name),
                                           *(f"{public}/{name}" for public in PUBLIC))
                     if target in known]
            if quote == '"' and not found:
                yield f'{path}: includes "{name}", which is not in the tree'
            elif quote == '"':
                below = floor_of(found[0])
                if below is not None and below not in MAY_INCLUDE[floor]:
                    yield f"{path} ({floor}): includes {found[0]} ({below})"
            for pattern, allowed in RESTRICTED:
                if (quote == "<" and re.match(pattern, name) and
                        floor not in allowed):
                    yield f"{path} ({floor}): includes <{name}>"


def check_names(root, paths):
    """Yields a message for each struct that two CUDA files define. C++ takes them
    for one, and merges the templates of which they are arguments."""
    owners = {}
    for path in paths:
        if not re.fullmatch(r"gpu/.*\.cuh?", path):
            continue
        text = (root / path).read_text(encoding="utf-8")
        for name in re.findall(r"^(?:struct|class|union) (\w+) \{", text, re.M):
            if owners.setdefault(name, path) != path:
                yield f"{path}: defines {name}, as {owners[name]} does"


def source_of(path):
    """The source of the object at `path` in the build folder."""
    match = re.fullmatch(r"(.*?)/?CMakeFiles/[^/]+\.dir/(.*)\.o", path)
    if match is None:
        return None
    return os.path.normpath("/".join(match.groups()).replace("__", ".."))


def symbols_of(lines):
    """The symbols that an object defines and needs, from the output of nm -gP."""
    defined, undefined = set(), set()
    for line in lines:
        name, kind = line.split()[:2]
        (undefined if kind in "Uvw" else defined).add(name)
    return defined, undefined


def check_calls(objects):
    """Yields a message for each call that breaks a rule; `objects` has pairs of
    a source's path and its symbols."""
    definers = {}
    for path, (defined, _) in objects:
        if floor_of(path) in MAY_CALL:
            for name in defined:
                definers.setdefault(name, set()).add(path)
    for path, (_, undefined) in objects:
        floor = floor_of(path)
        for name in sorted(undefined) if floor in MAY_CALL else ():
            below = sorted(definers.get(name, ()))
            if below and not any(floor_of(other) in MAY_CALL[floor]
                                 for other in below):
                yield (f"{path} ({floor}): calls {name} of {below[0]} "
                       f"({floor_of(below[0])})")


def callees(objects):
    """Source -> the other sources of its floor that it calls."""
    definers = {}
    for path, (defined, _) in objects:
        for name in defined:
            definers.setdefault(name, set()).add(path)
    return {path: {other for name in undefined
                   for other in definers.get(name, ())
                   if other != path and floor_of(other) == floor_of(path)}
            for path, (_, undefined) in objects if floor_of(path) in MAY_CALL}


def check_circles(objects):
    """Yields one message for each group of files that call each other."""
    called = callees(objects)
    reached = {}
    for path in called:
        reached[path], left = set(), [path]
        while left:
            for other in called.get(left.pop(), ()):
                if other not in reached[path]:
                    reached[path].add(other)
                    left.append(other)
    told = set()
    for path in sorted(reached):
        circle = sorted(other for other in reached[path]
                        if path in reached.get(other, ()))
        if circle and path not in told:
            told.update(circle)
            yield f"{', '.join(circle)} ({floor_of(path)}): call each other"


def read_objects(build, paths):
    known = set(paths)
    found = {}
    for folder in build.rglob("CMakeFiles"):
        for path in folder.rglob("*.o"):
            source = source_of("/".join(path.relative_to(build).parts))
            if source in known:
                found[str(path)] = source
    if not found:
        return []
    said = subprocess.run(["nm", "-gPA", *sorted(found)], check=True,
                          capture_output=True, text=True)
    lines = {path: [] for path in sorted(found)}
    for line in said.stdout.splitlines():
        path, symbol = line.split(": ", 1)
        lines[path].append(symbol)
    return [(found[path], symbols_of(lines[path])) for path in lines]


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    paths = sources(root)
    if not paths:
        sys.exit("no source files found")
    errors = [*check(root, paths), *check_names(root, paths)]
    objects = []
    if len(sys.argv) > 1:
        objects = read_objects(pathlib.Path(sys.argv[1]), paths)
        errors += sorted(set(check_calls(objects)))
        errors += check_circles(objects)
    for error in errors:
        print(error)
    if errors:
        sys.exit(1)
    print(f"{len(paths)} files and {len(objects)} objects, each on its floor")


if __name__ == "__main__":
    main()
