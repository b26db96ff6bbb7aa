#!/usr/bin/env python3
"""Renders the documentation as a site of static pages:

    pip install mkdocs==1.6.1
    doc/site/build.py OUT

The pages are README.md, CHANGELOG.md, CONTRIBUTING.md, doc/, bench/'s README.md and
notes, and references of C and Python (reference.py). Any warning is an error, so
every page is in the navigation, and every link and anchor between pages exists.
mkdocs is smaller than Sphinx with MyST (30 MB against 90) and takes a fifth of its
time."""
import logging
import pathlib
import re
import shutil
import sys

import mkdocs.commands.build
import mkdocs.config
import mkdocs.exceptions

import reference

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "bench/README.md",
         "bench/results/notes/*.md", "doc/*.md", "doc/*/*.md", "doc/plots/*.svg",
         "doc/pictures/*.png")
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
