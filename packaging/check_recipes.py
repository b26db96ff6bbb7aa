"""Checks each recipe of this folder with its own tool: check_recipes.py

ruff reads the Spack recipe, rattler-build the recipe of conda-forge, eb the
easyconfigs, luac and Lmod the modulefile, and hadolint the Containerfile. A tool that
is missing is named, and its recipe is not checked. Exits with 77, ctest's "skipped",
if all tools are missing."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
# The programs of this Python's virtual environment.
BIN = pathlib.Path(sys.executable).parent
LMOD = "/usr/share/lmod/lmod/libexec/lmod"


def program(name):
    """The path of a program, or None."""
    return shutil.which(name, path=f"{BIN}{os.pathsep}{os.environ['PATH']}")


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{result.stdout}")
    return result.stdout


def check_spack():
    ruff = program("ruff")
    if not ruff:
        return "ruff"
    for command in (["check", "--no-fix"], ["format", "--check"]):
        run(ruff, *command, "--no-cache", FOLDER / "spack")
    return None


def check_conda():
    try:
        import rattler_build
    except ImportError:
        return "py-rattler-build"
    recipe = rattler_build.Stage0Recipe.from_file(str(FOLDER / "conda/recipe.yaml"))
    variants = rattler_build.VariantConfig({"c_compiler": ["gcc"],
                                            "c_stdlib": ["sysroot"]})
    rendered = recipe.render(variants)
    assert len(rendered) == 2, rendered
    for name in re.findall(r"script: (packaging/\S+)",
                           (FOLDER / "conda/recipe.yaml").read_text()):
        assert (FOLDER.parent / name).is_file(), name
    return None


def check_easybuild():
    eb = program("eb")
    if not eb or not os.path.exists(LMOD):
        return "easybuild-framework or Lmod"
    with tempfile.TemporaryDirectory() as folder:
        said = run(eb, "--allow-use-as-root-and-accept-consequences",
                   f"--prefix={folder}", "--check-style",
                   *FOLDER.glob("easybuild/*.eb"), cwd=folder,
                   env={**os.environ, "LMOD_CMD": LMOD, "PATH":
                        f"{BIN}{os.pathsep}{os.environ['PATH']}"})
    assert "All style checks PASSed" in said, said
    return None


def check_lmod():
    luac = program("luac") or program("luac5.4")
    if not luac:
        return "luac"
    run(luac, "-p", FOLDER / "lmod/2.0.0.lua")
    if not os.path.exists(LMOD):
        return "Lmod"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(FOLDER / "lmod", f"{folder}/terp")
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("LMOD", "MODULE", "_ModuleTable"))}
        environment.update(MODULEPATH=folder, HDF5_PLUGIN_PATH="/other",
                           LMOD_CMD=LMOD)
        said = run("bash", "-c", f'eval "$({LMOD} bash load terp)" && echo '
                   '"$HDF5_PLUGIN_PATH $TERP_ROOT" && '
                   f'eval "$({LMOD} bash unload terp)" && '
                   'echo "$HDF5_PLUGIN_PATH${TERP_ROOT-}"', env=environment)
    expected = ["/opt/terp/2.0.0/lib/hdf5/plugin:/other /opt/terp/2.0.0", "/other"]
    assert said.splitlines()[-2:] == expected, said
    return None


def check_container():
    hadolint = program("hadolint")
    if not hadolint:
        return "hadolint"
    run(hadolint, FOLDER / "container/Containerfile")
    return None


def main():
    checks = [check_spack, check_conda, check_easybuild, check_lmod,
              check_container]
    missing = []
    for check in checks:
        tool = check()
        name = check.__name__.removeprefix("check_")
        print(f"{name}: {'not checked, ' + tool + ' is missing' if tool else 'good'}")
        missing += [tool] if tool else []
    if len(missing) == len(checks):
        print("skipped: the tools of all recipes are missing")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
