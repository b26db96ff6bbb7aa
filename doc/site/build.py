#!/usr/bin/env python3
"""Renders the documentation as a site of static pages:

    pip install mkdocs==1.6.1
    doc/site/build.py OUT

The pages are README.md, CHANGELOG.md, CONTRIBUTING.md, doc/, bench/'s README.md and
notes, the notebook, and references of C and Python (reference.py). Any warning is an error, so
every page is in the navigation, and every link and anchor between pages exists.
mkdocs is smaller than Sphinx with MyST (30 MB against 90) and takes a fifth of its
time."""
import base64
import json
import logging
import pathlib
import re
import shutil
import sys
import textwrap

import mkdocs.commands.build
import mkdocs.config
import mkdocs.exceptions

import reference

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "bench/README.md",
         "bench/results/notes/*.md", "doc/*.md", "doc/*/*.md", "doc/plots/*.svg",
         "doc/pictures/*.png")
NOTEBOOK = "examples/tutorial.ipynb"
# Where the notebook's links lead outside of this site.
SOURCE = "https://example.org/terp/blob/main/"
# Folders whose pages follow their README.md in the navigation.
FOLDERS = ("doc/audience", "doc/design", "bench/results/notes")


def slug(title, separator):
    """The anchor of a heading by GitHub's rule, where the sources are read too."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", separator)


def nested(text):
    """Indents the items of inner lists by four spaces, which mkdocs needs;
    elsewhere in Markdown two are enough."""
    lines, is_list = [], False
    for line in text.split("\n"):
        if re.match(r"([-*]|\d+\.) ", line):
            is_list = True
        elif line and not line.startswith(" "):
            is_list = False
        if is_list:
            line = re.sub(r"^ {2,3}(?=([-*]|\d+\.) )", "    ", line)
        lines.append(line)
    return "\n".join(lines)


def notebook_page(pages):
    """Writes the notebook with its output and pictures as a page."""
    notebook = json.loads((ROOT / NOTEBOOK).read_text(encoding="utf-8"))
    folder = (pages / NOTEBOOK).parent
    folder.mkdir(exist_ok=True)
    page = []

    def add_code(text):
        page.append(textwrap.indent(text.rstrip("\n"), "    "))

    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            page.append(source.replace(SOURCE, "../"))
            continue
        add_code(source)
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                page.append("prints")
                add_code("".join(output["text"]))
            else:
                name = f"{cell['id']}.png"
                (folder / name).write_bytes(base64.b64decode(
                    output["data"]["image/png"]))
                page.append(f"![The picture of the cell above]({name})")
    (folder / "tutorial.md").write_text("\n\n".join(page) + "\n", encoding="utf-8")


def collect(pages):
    """Copies the sources to `pages`, with the same paths."""
    for pattern in PAGES:
        for path in ROOT.glob(pattern):
            copy = pages / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":
                copy.write_text(nested(path.read_text(encoding="utf-8")),
                                encoding="utf-8")
            else:
                shutil.copyfile(path, copy)
    notebook_page(pages)
    folder = pages / "doc/reference"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "c.md").write_text(reference.c_page(ROOT), encoding="utf-8")
    (folder / "python.md").write_text(reference.python_page(ROOT),
                                      encoding="utf-8")


def with_folders(nav, pages):
    """The navigation with all pages of FOLDERS after their README.md."""
    if isinstance(nav, dict):
        return {title: with_folders(entry, pages) for title, entry in nav.items()}
    if not isinstance(nav, list):
        return nav
    for folder in FOLDERS:
        first = f"{folder}/README.md"
        if nav == [first]:
            found = {str(path.relative_to(pages))
                     for path in (pages / folder).glob("*.md")}
            return [first, *sorted(found - {first})]
    return [with_folders(entry, pages) for entry in nav]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1]).resolve()
    pages = out / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    try:
        collect(pages)
    except reference.Undocumented as error:
        sys.exit(f"no documentation: {error}")
    logging.basicConfig(format="%(message)s")
    config = mkdocs.config.load_config(
        str(pathlib.Path(__file__).with_name("mkdocs.yml")),
        docs_dir=str(pages), site_dir=str(out / "html"), strict=True)
    config.mdx_configs["toc"] = {"slugify": slug, "permalink": False}
    config.nav = with_folders(config.nav, pages)
    try:
        mkdocs.commands.build.build(config)
    except mkdocs.exceptions.MkDocsException as error:
        sys.exit(str(error))
    print(f"{sum(1 for _ in out.glob('html/**/*.html'))} pages: "
          f"{out}/html/index.html")


if __name__ == "__main__":
    main()
