#!/usr/bin/env python3
"""Tests mutants of terp's sources. scripts/mutants.sh makes the build for it.

A mutant is a source with one changed line. In a copy of the tree, the build's own commands
compile all files that include the source. Mutants that do not compile, or whose objects equal the
original ones byte for byte, do not count. Then tests are compiled, linked and run, first those
that killed most mutants of this file in the least time, until one fails, ends by a signal, or
takes several times its usual CPU time. A mutant that tests of --seconds do not kill has survived;
--again runs all its tests. Rows of earlier runs are found by the text of the line, so that lines
above may come and go.
"""
import argparse
import collections
import concurrent.futures
import csv
import datetime
import fnmatch
import functools
import json
import os
import pathlib
import platform
import queue
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("codebooks", "codec", "cpu", "decoder", "filter", "fuzz", "gpu", "h5tests", "portable")

# Sources that rebuild values, read streams or check bounds. Sources that only choose between
# correct streams (tuners, costs, searches) are left out.
SOURCES = """
codec/format/*.[ch] codec/api/cd_values.[ch] codec/api/inspect.c
codec/compose/complex.c codec/compose/copies.c codec/compose/decode.c codec/compose/pieces.c
codec/compose/references.c codec/compose/stream.c
codec/model/bound.h codec/model/carrier.h codec/model/coarse.[ch] codec/model/contexts.h
codec/model/exact.h codec/model/logarithm.h codec/model/lorenzo.h codec/model/lossless.h
codec/model/lossless_quants.h codec/model/low_bits.[ch] codec/model/pointwise.h
codec/model/quantizer.h codec/model/range.h codec/model/repeats.h codec/model/spline.h
codec/model/value.h
cpu/decode.c cpu/session.c cpu/entropy/codebooks.c
cpu/entropy/codewords.[ch] cpu/entropy/contexts.c cpu/entropy/kept.c cpu/entropy/order.[ch]
cpu/entropy/rows.h cpu/entropy/tiles_decode.c cpu/entropy/tokens.[ch] cpu/predict/carrier.c
cpu/predict/coarse.c cpu/predict/deinterleave.c cpu/predict/differences.c cpu/predict/lorenzo.c
cpu/predict/lorenzo_impl.h cpu/predict/lossless.c cpu/predict/lossless_impl.h
cpu/predict/means_impl.h cpu/predict/pointwise.c cpu/predict/pointwise_decode_impl.h
cpu/predict/pointwise_impl.h cpu/predict/references_search.c cpu/predict/repeats.c
cpu/predict/scan.c cpu/predict/spline.c cpu/predict/spline_levels.c cpu/predict/stages_impl.h
cpu/sections/*.[ch]
filter/plugin/call.c filter/plugin/h5z_terp.c
""".split()

TESTS = """
test_golden some_digests stream_digest_1 test_reader format format_fields test_hostile test_frame
test_cd_values test_inspect test_model test_reduce test_choices test_estimates test_stages
test_codebooks test_huffman test_reserve test_repeats test_sections test_tails test_lossless
test_special_values
test_types test_precision test_tight_bounds test_coarse test_roundtrip test_pointwise test_psnr
test_domain test_ratio test_threads test_limit test_memory test_environment test_batch
test_filter_hosts test_filter_values test_filter_pass test_filter_errors test_filter_dataset
filter_engine_named filter_engine_missing test_h5_blocks
""".split()
# The programs of tests that have other names than their programs.
PROGRAMS = {"stream_digest_1": ["stream_digest"], "some_digests": ["stream_digest"],
            "format": ["make_pairs", "terp_decode"],
            "format_fields": ["make_pairs"], "filter_engine_named": ["test_filter_engine"],
            "filter_engine_missing": ["test_filter_engine"]}
PLUGIN = "h5zterp"

COLUMNS = ("date", "machine", "version", "file", "line", "before", "after", "verdict", "test",
           "why") # explains why no test can find a survivor
KILLED, TIMED_OUT, SURVIVED = "killed", "timeout", "survived"
EQUAL, INVALID = "equal", "does not compile" # do not count
EXPLAINED = "explained" # survived, with a reason in its row

Mutant = collections.namedtuple("Mutant", "file line before after")


# ---- mutants ----

@functools.lru_cache(maxsize=None)
def mutants_of(file):
    """All mutants of a file, in the order of the rules."""
    return tuple(make_mutants(file))


def make_mutants(file):
    from universalmutator import mutator  # in the virtual environment
    with open(ROOT / file) as source:
        lines = source.readlines()
    stdout, sys.stdout = sys.stdout, open(os.devnull, "w") # hides its messages
    try:
        made = mutator.mutants_regexp(lines, ["universal.rules", "c.rules", "c_like.rules"],
                                      ignorePatterns=["_Static_assert|static_assert"],
                                      ignoreStringOnly=True)
    finally:
        sys.stdout.close()
        sys.stdout = stdout
    for number, after, *_ in made:
        # Rules for numbers also change names such as `x2`. If both names exist, that
        # is a mutant like any other.
        yield Mutant(file, number, lines[number - 1], after)


def is_idle(mutant):
    """Whether a mutant behaves like the original although its object differs."""
    before, after = mutant.before, mutant.after
    if re.match(r"\s*for \(.*\+\+", before) and before.replace("<", "!=") == after:
        return True # the counter grows by one up to the limit
    if re.match(r"\s*/\*static\b[^;{=,(]*\*/$", after):
        return True # the function becomes visible elsewhere; its type is int
    if re.search(r"\n\s*(break|continue);\n$", after):
        return True # nine of ten are outside of loops and do not compile
    at = len(os.path.commonprefix([before, after]))
    if re.search(r"\w$", before[:at]) and re.match(r"\d", before[at:]):
        return True # changes a name to one that does not exist, or a number
    return "__builtin_prefetch" in before or "fetch != NULL" in before


def sample(files, seed):
    """All mutants of the files, in an order that depends on the seed alone. A file with four times
    as many mutants comes twice as often."""
    drawn, turn = {}, []
    for file in files:
        made = list(mutants_of(file))
        random.Random(f"{seed}:{file}").shuffle(made)
        if made:
            drawn[file] = made
            turn.append((len(made) ** -0.5, file))
    steps = {file: step for step, file in turn}
    while turn:
        at, file = min(turn)
        turn.remove((at, file))
        mutant = drawn[file].pop()
        if not is_idle(mutant):
            yield mutant
        if drawn[file]:
            turn.append((at + steps[file], file))


def in_a_row(line):
    return " ".join(line.split())


def key_of(mutant):
    return mutant.file, in_a_row(mutant.before), in_a_row(mutant.after), mutant.line


def row_key(row):
    return row["file"], row["before"], row["after"], row["line"]


# ---- uses of headers ----

WORD = re.compile(r"\b[A-Za-z_]\w+\b")
FUNCTION = re.compile(r"^(?!TERP_TYPED)(?:TERP_STRUCT\(\w+\) )?(\w+)\(")


def definitions(text):
    """(name, first line, last line, words) of each function and macro with a body. Relies on the
    formatter: a name begins a line, a brace ends a body."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        name = FUNCTION.match(lines[at])
        macro = re.match(r"#define (\w+)", lines[at])
        end = at
        if macro:
            while lines[end].endswith("\\"):
                end += 1
        elif name:
            while end < len(lines) and lines[end] != "}" and not lines[end].endswith(";"):
                end += 1
            if end < len(lines) and lines[end].endswith(";") and "{" in lines[at:end]:
                end = lines.index("}", end)
        if (macro or name) and end < len(lines) and (macro or lines[end] == "}"):
            yield ((macro or name).group(1), at + 1, end + 1,
                   set(WORD.findall("\n".join(lines[at:end + 1]))))
        at = max(end, at) + 1


class Uses:
    """Finds the sources that use a line of a header. A line in the body of an inline function is
    used by sources that name the function, or an inline function or macro that names it; other
    lines by all sources."""

    def __init__(self, files):
        self.words, self.inline = {}, {}
        self.users = collections.defaultdict(set) # word -> inline functions and macros
        for file in files:
            text = (ROOT / file).read_text()
            self.words[file] = set(WORD.findall(text))
            if file.endswith(".h") and not file.endswith("_impl.h"):
                self.inline[file] = list(definitions(text))
                for name, _, _, words in self.inline[file]:
                    for word in words - {name}:
                        self.users[word].add(name)

    def names_for(self, file, line):
        """Names of functions and macros that use a line; None: all sources use it."""
        inside = [name for name, first, last, _ in self.inline.get(file, ())
                  if first < line < last]
        if not inside:
            return None
        names, new = set(), set(inside)
        while new:
            names |= new
            new = set().union(*(self.users[name] for name in new)) - names
        return names

    def may_use(self, includes, names):
        return names is None or any(
            names & self.words[file] for file in includes if file not in self.inline)


# ---- the build ----

class Unit:
    """One call of the compiler."""

    def __init__(self, entry):
        self.dir = pathlib.Path(entry["directory"])
        self.args = shlex.split(entry["command"])
        if self.args[0].endswith("ccache"):
            del self.args[0] # a cache would not help: mutants are compiled once
        at = self.args.index("-o") + 1
        self.object = (self.dir / self.args[at]).resolve()
        del self.args[at - 1:at + 1]
        self.library = re.search(r"CMakeFiles/(\w+)\.dir/", str(self.object)).group(1)
        self.source = pathlib.Path(entry["file"]).relative_to(ROOT)
        self.includes = set()
        depends = pathlib.Path(f"{self.object}.d")
        if depends.exists():
            text = depends.read_text().replace("\\\n", " ").split(":", 1)[1]
            prefix = f"{ROOT}/"
            self.includes = {os.path.normpath(name)[len(prefix):] for name in text.split()
                             if os.path.normpath(name).startswith(prefix)}


class Program:
    """One call of the linker."""

    def __init__(self, link, output):
        self.dir = link.parent.parent.parent
        self.args = shlex.split(link.read_text().splitlines()[0])
        at = self.args.index("-o") + 1
        self.output = (self.dir / self.args[at]).resolve()
        self.at = at
        assert self.output == output or output is None


class Build:
    def __init__(self, folder):
        self.folder = folder
        with open(folder / "compile_commands.json") as file:
            units = [Unit(entry) for entry in json.load(file)]
        self.units = [unit for unit in units if unit.includes and unit.object.exists()]
        self.uses = Uses({file for unit in self.units for file in unit.includes
                          if not file.startswith("build/")})
        self.programs = {}
        for link in folder.glob("**/link.txt"):
            name = link.parent.name[:-len(".dir")]
            if "-o" in link.read_text().split():
                self.programs[name] = Program(link, None)
        listed = json.loads(subprocess.run(
            ["ctest", "--test-dir", folder, "--show-only=json-v1"], check=True,
            stdout=subprocess.PIPE).stdout)["tests"]
        tests = {test["name"]: test for test in listed}
        # A build with sanitizers has only stream_digest_2, with fewer streams.
        tests.setdefault("stream_digest_1", tests["stream_digest_2"])
        # One of eight lines kills nearly as many mutants as all.
        tests["some_digests"] = dict(tests["stream_digest_1"], command=[
            *tests["stream_digest_1"]["command"], "--every", "8"])
        missing = set(TESTS) - set(tests)
        if missing:
            sys.exit(f"mutants: the build has no test {', '.join(sorted(missing))}")
        self.tests = {name: tests[name] for name in TESTS}
        self.seconds = {} # CPU time of each test without a mutant
        # For each test, and each file and test: killed mutants, runs.
        self.kills = collections.Counter()
        self.runs = collections.Counter()

    def order(self, file):
        """Tests, sorted by their expected number of kills per second."""
        subject = re.match(r"[a-z0-9]*?(?=s?(_|$))", pathlib.Path(file).stem).group()

        def use(name):
            every = self.kills[name] + 1, self.runs[name] + 20
            # Assume some kills by a test that has the file's name.
            prior = 4 if subject in name else 8 * every[0] / every[1]
            here = self.kills[file, name] + prior, self.runs[file, name] + 8
            return here[0] / here[1] / (self.seconds[name] + 0.2)
        return sorted(TESTS, key=use, reverse=True)

    def note(self, file, name, killed):
        for key in (name, (file, name)):
            self.runs[key] += 1
            self.kills[key] += killed


class CannotCompile(Exception):
    pass


class Worker:
    """A copy of the tree with one changed line at a time."""

    def __init__(self, build, number, sanitized):
        self.build, self.sanitized = build, sanitized
        self.folder = build.folder / f"worker-{number}"
        self.tree = self.folder / "tree"
        self.made = self.folder / "made"
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in FOLDERS:
            if (ROOT / name).exists():
                shutil.copytree(ROOT / name, self.tree / name)
        self.file = None
        self.objects, self.linked = {}, {}

    def change(self, mutant):
        shutil.rmtree(self.made, ignore_errors=True)
        self.made.mkdir()
        self.objects, self.linked = {}, {}
        if self.file is not None:
            shutil.copyfile(ROOT / self.file, self.tree / self.file)
        self.file = mutant.file if mutant else None
        self.names = mutant and self.build.uses.names_for(mutant.file, mutant.line)
        if mutant:
            with open(ROOT / mutant.file) as file:
                lines = file.readlines()
            assert lines[mutant.line - 1] == mutant.before
            lines[mutant.line - 1] = mutant.after
            (self.tree / mutant.file).write_text("".join(lines))

    def compile(self, unit):
        if unit.object not in self.objects:
            path = self.made / f"{len(self.objects)}.o"
            args = []
            for arg in unit.args:
                # Do not replace the build folder, which is inside the tree.
                args.append(re.sub(rf"^(-I|)({re.escape(str(ROOT))})(?=/(?!build/)|$)",
                                   rf"\g<1>{self.tree}", arg))
            try:
                done = subprocess.run([*args, "-w", "-o", path], cwd=unit.dir, timeout=600,
                                      start_new_session=True, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL).returncode == 0
            except subprocess.TimeoutExpired:
                done = False
            self.objects[unit.object] = path if done else None
        if self.objects[unit.object] is None:
            raise CannotCompile
        return self.objects[unit.object]

    def changed_units(self, libraries):
        return [unit for unit in self.build.units
                if self.file in unit.includes and unit.library in libraries
                and self.build.uses.may_use(unit.includes, self.names)]

    def link(self, name):
        if name not in self.linked:
            program = self.build.programs[name]
            args, first = list(program.args), None
            libraries = {name}
            for at, arg in enumerate(args):
                if arg.endswith(".a") and "/terp_" not in arg:
                    found = re.fullmatch(r"(?:.*/)?lib(terp_\w+)\.a", arg)
                    if found:
                        first = at if first is None else first
                        libraries.add(found.group(1))
            of_libraries = []
            for unit in self.changed_units(libraries):
                path = str(self.compile(unit))
                own = [at for at, arg in enumerate(args)
                       if arg.endswith(".o") and (program.dir / arg).resolve() == unit.object]
                if own:
                    args[own[0]] = path
                else: # before the archive: the linker then ignores the archive's object
                    of_libraries.append(path)
            if first is not None:
                args[first:first] = of_libraries
            folder = self.made / name
            folder.mkdir()
            args[program.at] = folder / program.output.name
            if subprocess.run(args, cwd=program.dir, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode:
                raise CannotCompile
            self.linked[name] = folder / program.output.name
        return self.linked[name]

    def passes(self, name, limit):
        """True, False, or None if the test took more than `limit` seconds of CPU time, or 20 times
        as long by the clock, so that it probably waits for ever."""
        test = self.build.tests[name]
        properties = {p["name"]: p["value"] for p in test["properties"]}
        paths = {}
        wanted = PROGRAMS.get(name, [name])
        if "PLUGIN" in str(test) or "h5" in name or "filter" in name:
            wanted = [*wanted, PLUGIN]
        for program in wanted:
            output = self.link(program)
            paths[str(self.build.programs[program].output)] = str(output)
            if program == PLUGIN:
                paths[str(self.build.programs[program].output.parent)] = str(output.parent)

        environment = dict(os.environ, TERP_NUM_THREADS="1")
        for pair in properties.get("ENVIRONMENT", []):
            variable, value = pair.split("=", 1)
            environment[variable] = paths.get(value, value)
        if "HDF5_PLUGIN_PATH" in environment: # also for copies of the plugin
            environment["HDF5_PLUGIN_PATH"] = str(self.link(PLUGIN).parent)

        def limits():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
            if not self.sanitized: # sanitizers reserve terabytes
                resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

        command = [paths.get(arg, arg) for arg in test["command"]]
        process = subprocess.Popen(command, cwd=properties.get("WORKING_DIRECTORY"),
                                   env=environment, start_new_session=True, preexec_fn=limits,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            status = process.wait(20 * limit)
            return None if status == -signal.SIGXCPU else status in (0, 77)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try: # also ends processes that the test started
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()

    def judge(self, mutant, seconds):
        self.change(mutant)
        units = self.changed_units({"terp_codec", "terp_codebooks", PLUGIN})
        try:
            same = [self.compile(unit).read_bytes() == unit.object.read_bytes() for unit in units]
        except CannotCompile:
            return INVALID, ""
        if all(same): # also if no source uses the line
            return EQUAL, ""
        for name in self.build.order(mutant.file):
            if seconds <= 0:
                break
            seconds -= self.build.seconds[name]
            try:
                passed = self.passes(name, 4 * int(self.build.seconds[name]) + 5)
            except CannotCompile: # a static assertion of the test
                passed = False
            self.build.note(mutant.file, name, not passed)
            if not passed:
                return (TIMED_OUT if passed is None else KILLED), name
        return SURVIVED, ""

    def measure(self):
        """Measures the CPU time of each test without a mutant; all must pass. Checks that an object
        compiled here equals the build's."""
        self.change(None)
        for unit in self.build.units:
            if str(unit.source) == "codec/format/frame.c" and unit.library == "terp_codec":
                if self.compile(unit).read_bytes() != unit.object.read_bytes():
                    sys.exit("mutants: the copy's object differs from the build's; build again")
        known = self.build.folder / "seconds.json"
        if known.exists(): # valid for programs that are older
            at = known.stat().st_mtime
            self.build.seconds = {
                name: seconds for name, seconds in json.loads(known.read_text()).items()
                if all(self.build.programs[program].output.stat().st_mtime < at
                       for program in PROGRAMS.get(name, [name]))}
        for name in TESTS:
            if name in self.build.seconds:
                continue
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            if not self.passes(name, 600):
                sys.exit(f"mutants: {name} fails without a mutant")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.build.seconds[name] = (after.ru_utime + after.ru_stime
                                        - before.ru_utime - before.ru_stime)
        known.write_text(json.dumps(self.build.seconds))


# ---- results ----

def where():
    names = re.findall(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    processor = re.sub(r"\s+(\d+-Core )?Processor.*| @.*", "", names[0]) if names else (
        platform.machine())
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(),
                       re.M)
    version = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True,
                             stdout=subprocess.PIPE).stdout.strip()
    return {"date": datetime.date.today().isoformat(),
            "machine": f"{processor} / {os.cpu_count()} cores / {system.group(1)}",
            "version": f"terp {version}"}


def read_rows(path):
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return [dict(row, why=row.get("why") or "") for row in csv.DictReader(file)]


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_suffix(".tmp")
    with open(whole, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: (row["file"], int(row["line"]))))
    whole.replace(path)


def counts(row):
    return row["verdict"] not in (EQUAL, INVALID)


def print_totals(rows):
    by_file = collections.defaultdict(collections.Counter)
    for row in rows:
        verdict = EXPLAINED if row["why"] else row["verdict"]
        by_file[row["file"]][verdict] += 1
        by_file["all"][verdict] += 1
    print(f"{'':36} tested killed timeout explained survived")
    for file in sorted(by_file, key=lambda name: (name == "all", name)):
        n = by_file[file]
        tested = n[KILLED] + n[TIMED_OUT] + n[EXPLAINED] + n[SURVIVED]
        if tested == 0:
            continue
        print(f"{file:36} {tested:6} {n[KILLED]:6} {n[TIMED_OUT]:7} {n[EXPLAINED]:9} "
              f"{n[SURVIVED]:8}")
    n = by_file["all"]
    differ = n[KILLED] + n[TIMED_OUT] + n[SURVIVED]
    print(f"not counted: {n[INVALID]} that do not compile, {n[EQUAL]} with equal objects")
    if differ:
        print(f"of {differ} that differ {n[SURVIVED]} survived, {100 * n[SURVIVED] / differ:.1f} %")


def found_again(rows):
    """Rows with the present lines of their mutants, and rows whose text is gone. Lines above may
    have come or gone: of several lines with this text the nearest counts, each once."""
    found, gone = [], []
    free = collections.defaultdict(list) # text -> lines
    for file in {row["file"] for row in rows}:
        for m in mutants_of(file) if (ROOT / file).exists() else ():
            free[file, in_a_row(m.before), in_a_row(m.after)].append(m.line)
    # Rows that have not moved come first, so that no other row takes their line.
    def here(row):
        return int(row["line"]) not in free[row["file"], row["before"], row["after"]]
    for row in sorted(rows, key=here):
        lines = free[row["file"], row["before"], row["after"]]
        if lines:
            line = min(lines, key=lambda at, row=row: abs(at - int(row["line"])))
            lines.remove(line)
            found.append(dict(row, line=line))
        else:
            gone.append(row)
    return found, gone


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--targets", action="store_true", help="print the targets to build")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/results/mutants.csv")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("files", nargs="*", metavar="FILE")
    args = parser.parse_args()
    if args.targets:
        programs = {program for name in TESTS for program in PROGRAMS.get(name, [name])}
        print("\n".join(sorted(programs | {PLUGIN})))
        return

    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, text=True,
                             stdout=subprocess.PIPE).stdout.split()
    files = [name for name in tracked
             if any(fnmatch.fnmatch(name, pattern) for pattern in args.files or SOURCES)]
    if not files:
        sys.exit("mutants: no file matches")
    build = Build(args.build.resolve())
    workers = queue.Queue()
    for number in range(args.jobs):
        workers.put(Worker(build, number, args.sanitize))
    worker = workers.get()
    worker.measure()
    workers.put(worker)

    found, gone = found_again(read_rows(args.out))
    rows = {row_key(row): row for row in found}
    for row in gone:
        print(f"{row['file']}:{row['line']}: gone, was {row['verdict']}\n    {row['before']}\n"
              f"    {row['after']}", flush=True)
    lock = threading.Lock()
    facts = where()

    def test(mutant):
        worker = workers.get()
        try:
            verdict, name = worker.judge(mutant, 1e9 if args.again else args.seconds)
        finally:
            workers.put(worker)
        with lock:
            row = dict(facts, file=mutant.file, line=mutant.line, before=in_a_row(mutant.before),
                       after=in_a_row(mutant.after), verdict=verdict, test=name, why="")
            if verdict == SURVIVED: # the reason of an earlier run stays true
                row["why"] = rows.get(row_key(row), row)["why"]
                print(f"{mutant.file}:{mutant.line}: survived\n    {row['before']}\n"
                      f"    {row['after']}", flush=True)
            rows[row_key(row)] = row
            write_rows(args.out, rows.values())
            return row

    def test_some(mutants, count, every=False):
        """Tests mutants without a row, or with `every` all, until `count` mutants count."""
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            tested, pending = 0, set()
            for mutant in mutants:
                row = None if every else rows.get(key_of(mutant))
                if row is None:
                    pending.add(pool.submit(test, mutant))
                elif counts(row):
                    tested += 1
                while len(pending) >= args.jobs:
                    done, pending = concurrent.futures.wait(
                        pending, return_when=concurrent.futures.FIRST_COMPLETED)
                    tested += sum(counts(future.result()) for future in done)
                if tested >= count:
                    break
            for future in pending:
                future.result() # an error in a test ends the run

    if args.again:
        survivors = {row_key(row) for row in found if row["verdict"] == SURVIVED}
        test_some([m for file in sorted({key[0] for key in survivors}) for m in mutants_of(file)
                   if key_of(m) in survivors], len(survivors) + 1, every=True)
        # Replace each counted mutant that is gone by another one of its file.
        for file, n in sorted(collections.Counter(r["file"] for r in gone if counts(r)).items()):
            if (ROOT / file).exists():
                test_some((m for m in sample([file], args.seed) if key_of(m) not in rows), n)
    else:
        test_some(sample(files, args.seed), args.count)
    print_totals(rows.values())


if __name__ == "__main__":
    main()
