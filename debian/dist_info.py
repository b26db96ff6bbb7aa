"""Writes what pip would of the package's name, version and entry points:
dist_info.py DIRECTORY"""
import pathlib
import re
import sys
import tomllib

project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]
header = pathlib.Path("codec/api/terp.h").read_text()
version = re.search(r'#define TERP_VERSION "(.*)"', header)[1]
info = pathlib.Path(sys.argv[1]) / f"h5z_terp-{version}.dist-info"
info.mkdir()
(info / "METADATA").write_text(
    f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n"
    f"Summary: {project['description']}\n")
groups = dict(project["entry-points"])
with open(info / "entry_points.txt", "w") as file:
    for group, entries in groups.items():
        file.write(f"[{group}]\n")
        file.writelines(f"{k} = {v}\n" for k, v in entries.items())
