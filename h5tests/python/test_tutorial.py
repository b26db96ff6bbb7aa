"""Runs examples/tutorial.ipynb, and compares what its cells print with the output
in the notebook.

    test_tutorial.py --write

writes the output and the pictures into the notebook: run it where h5z_terp is
installed, after a change of the notebook. What cells with the tag "varies" print is
not compared: times, and the description that `terp info` gives of a file."""

import ast
import base64
import contextlib
import io
import json
import os
from pathlib import Path
import subprocess
import sys
import tempfile

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples/tutorial.ipynb"


def as_python(source):
    """A cell's code, in which run() replaces the lines for the shell."""
    return "\n".join(f"run({line[1:]!r})" if line.startswith("!") else line
                     for line in source.split("\n"))


def run(command):
    # The tool lies beside the interpreter of a virtual environment.
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    result = subprocess.run(command, shell=True, check=True, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env={**os.environ, "PATH": path})
    print(result.stdout, end="")


def execute(notebook):
    """Runs all cells; returns what each code cell printed, and its pictures."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    names, results = {"run": run}, []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        code = as_python("".join(cell["source"]))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(ast.parse(code), cell["id"], "exec"), names)
        pictures = []
        for number in plt.get_fignums():
            buffer = io.BytesIO()
            plt.figure(number).savefig(buffer)
            pictures.append(buffer.getvalue())
        plt.close("all")
        results.append((cell, out.getvalue(), pictures))
    return results


def read():
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


def test_cells_print_what_the_notebook_shows(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    results = execute(read())
    assert len(results) > 10
    for cell, text, pictures in results:
        shown = ["".join(output["text"]) for output in cell["outputs"]
                 if output["output_type"] == "stream"]
        if "varies" not in cell["metadata"].get("tags", ()):
            assert "".join(shown) == text, cell["id"]
        assert len(pictures) == sum(output["output_type"] == "display_data"
                                    for output in cell["outputs"])


def write():
    notebook = read()
    results = execute(notebook)
    for count, (cell, text, pictures) in enumerate(results):
        cell["execution_count"] = count + 1
        cell["outputs"] = [{"name": "stdout", "output_type": "stream",
                            "text": text.splitlines(keepends=True)}] if text else []
        cell["outputs"] += [
            {"output_type": "display_data", "metadata": {},
             "data": {"image/png": base64.b64encode(picture).decode()}}
            for picture in pictures]
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n",
                        encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write()
