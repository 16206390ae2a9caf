#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Write the metadata for pip and importlib.metadata: dist-info.py PYPROJECT VERSION DIRECTORY INSTALLER

meson installs the Python package without metadata. dh_python3 makes dependencies from it.
"""
import pathlib
import sys
import tomllib


def main():
    pyproject, version, directory, installer = sys.argv[1:]
    with open(pyproject, "rb") as file:
        project = tomllib.load(file)["project"]
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        *(f"Classifier: {text}" for text in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {text}" for text in project["dependencies"]),
    ]
    to = pathlib.Path(directory) / f"{project['name']}-{version}.dist-info"
    to.mkdir(parents=True)
    (to / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (to / "INSTALLER").write_text(installer + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
