#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The first commands of the README in a minimal root of a Debian release: test_bare.py SUITE

The root has only a fresh checkout. Tested are: `make demo` as root, while another program holds
apt's locks; `make build` as another user, with exactly the packages that it lists; that the
packages for `make test` exist; `pip install ./python`, and the first examples of `hugemap.install` and
`hugemap.memmap` in docs/python.md.
"""
import os
import pathlib
import re
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [os.fspath(HERE.parent), os.fspath(HERE.parents[1] / "tools")]

import cases
import debian_root
import sources

USER = "somebody"
CLONE = f"/home/{USER}/hugemap"
# Hold the locks of an upgrade, of the same type as apt's, and signal by /tmp/held.
HOLD_LOCKS = r"""
perl -MFcntl -e '
	for (@ARGV) {
		open(my $file, "+>>", $_) or die "$_: $!";
		my $lock = pack("s! s! x![q] q q i x![q]", F_WRLCK, 0, 0, 0, 0);
		fcntl($file, F_SETLK, $lock) or die "$_: $!";
		push @held, $file;
	}
	open(my $signal, ">", "/tmp/held");
	close($signal);
	sleep 5;
' /var/lib/dpkg/lock-frontend /var/lib/apt/lists/lock /var/cache/apt/archives/lock &
holder=$!
while [ ! -e /tmp/held ]; do kill -0 $holder; sleep 0.1; done
"""

# Appended to the example: the stored bytes are in the file.
CHECK = """
a[17] = 3
a.flush()
b = __import__("numpy").memmap("data", dtype="f4", mode="r", shape=(100000, 768))
assert b[17].sum() == 3 * 768 and not b[16].any() and not b[18].any()
"""


def first_block(document: pathlib.Path, language: str = "", word: str = "") -> list[str]:
    """The lines of the first code block of a document; with a language, of the first that has the word."""
    text = document.read_text()
    if language:
        blocks = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
        return next(block for block in blocks if word in block).splitlines()
    return [line.strip() for line in re.search(r"(?:^    \S.*\n)+", text, re.MULTILINE)[0].splitlines()]


def without_comment(line: str) -> str:
    return line.split("#")[0].strip()


class Bare:
    """A machine with a checkout in the home of a user, without package lists."""

    def __init__(self, base: pathlib.Path, clone: pathlib.Path, scratch: str) -> None:
        self.machine = debian_root.Machine(base, scratch)
        self.clone = clone

    def __enter__(self) -> "Bare":
        self.machine.__enter__()
        self.machine.run(f"useradd -m {USER}; rm -rf /var/lib/apt/lists/*")
        home = self.machine.upper / "home" / USER
        shutil.copytree(self.clone, home / "hugemap", symlinks=True)
        self.machine.run(["chown", "-R", f"{USER}:", f"/home/{USER}"])
        return self

    def __exit__(self, *unused: object) -> None:
        self.machine.__exit__()

    def root(self, line: str, **more: object):
        # The tests of packages compile with optimization.
        return self.machine.run(f"cd {CLONE}; {line}", env={"CFLAGS": "-O0"}, **more)

    def user(self, line: str, **more: object):
        return self.root(line, user=USER, **more)


def command_for_root(output: str) -> str:
    """The command for root in the output."""
    lines = re.findall(r"^ {4}(apt-get install .*)$", output, re.MULTILINE)
    assert len(lines) == 1, f"the output has no command for root:\n{output}"
    return lines[0]


def try_demo(bare: Bare, tell: cases.Cases, suite: str) -> None:
    with tell.case(f"{suite}_demo"):
        # The packages for a clone and for make.
        get, demo = (without_comment(line) for line in first_block(sources.TOP / "README.md")[:2])
        assert get.startswith("apt-get update && apt-get install") and demo == "make demo", (get, demo)
        bare.root(get.replace("install", "install -y --no-install-recommends"))
        output = bare.root(HOLD_LOCKS + f"{demo} SIZE=64M").stdout
        assert re.search(r"Another program \(process \d+ \(perl\)\) installs packages: waiting",
                         output), output
        assert re.search(r"read a file end to end +\d+ MB/s", output), output
        assert "write a new file" in output, output
        report = bare.root("cat build/report.html").stdout
        assert "<table>" in report and report.endswith("</html>\n"), report


def try_build(bare: Bare, tell: cases.Cases, suite: str) -> None:
    with tell.case(f"{suite}_build_as_a_user"):
        bare.root("apt-get update -q && apt-get install -y -q --no-install-recommends make")
        refused = bare.user("make build", check=False)
        assert refused.returncode, "it builds without a compiler"
        bare.root(command_for_root(refused.stdout).replace("install", "install -y", 1))
        bare.user("make build")
        output = bare.user("build/hugemap --version; ls build/libhugemap.so").stdout
        assert re.match(r"hugemap \d", output), output
        # The root has no package that only tests need.
        assert bare.root("dpkg -l libcmocka-dev", check=False).returncode


def try_a_package_that_is_missing(bare: Bare, tell: cases.Cases, suite: str) -> None:
    with tell.case(f"{suite}_a_missing_package_is_named"):
        bare.root("sed 's/^build=.*/build=\"gcc libjonson-dev\"/' "
                  "tools/install-deps.sh >tools/wrong.sh")
        failed = bare.root("sh tools/wrong.sh build", check=False)
        bare.root("rm tools/wrong.sh")
        assert failed.returncode, "it does not fail"
        assert ("The package libjonson-dev cannot be installed: Unable to locate"
                in failed.stdout), failed.stdout
        assert "The package gcc" not in failed.stdout, failed.stdout


def try_a_lock_that_stays(bare: Bare, tell: cases.Cases, suite: str) -> None:
    with tell.case(f"{suite}_stops_waiting_after_the_limit"):
        gave_up = bare.root(HOLD_LOCKS.replace("sleep 5", "sleep 60") +
                            "HM_LOCK_WAIT=3 tools/install-deps.sh build", check=False)
        output = gave_up.stdout
        assert gave_up.returncode, "it does not fail"
        assert len(re.findall("waiting for it, up to 3 s", output)) == 1, output
        assert len(re.findall("Another program still installs packages", output)) == 1, output
        assert "The package" not in output, output


def try_tests(bare: Bare, tell: cases.Cases, suite: str) -> None:
    with tell.case(f"{suite}_packages_for_tests_exist"):
        assert "tools/install-deps.sh test" in bare.user("make -n test").stdout
        wanted = command_for_root(bare.user("make test-deps", check=False).stdout)
        assert "libcmocka-dev" in wanted, wanted
        bare.root(wanted.replace("install", "install -s -q", 1))


def try_python(bare: Bare, tell: cases.Cases, suite: str) -> None:
    with tell.case(f"{suite}_pip_install"):
        output = bare.user("tools/install-deps.sh python", check=False).stdout
        bare.root(command_for_root(output).replace("install", "install -y", 1))
        command = without_comment(first_block(sources.TOP / "docs" / "python.md")[1])
        assert command.endswith("venv/bin/pip install ./python"), command
        bare.user(command)
    with tell.case(f"{suite}_first_examples_in_python"):
        page = sources.TOP / "docs" / "python.md"
        example = "\n".join([*first_block(page, "python"), *first_block(page, "python", "hugemap.memmap(")])
        bare.user("truncate -s $((100000 * 768 * 4)) ../data")
        example += CHECK
        bare.user(f"cd ..; cat >example.py <<'END'\n{example}END\nexec hugemap/venv/bin/python example.py")


def main() -> int:
    suite = sys.argv[1]
    debian_root.end_on_signals()
    tell = cases.Cases()
    try:
        base = debian_root.base(suite)
        files = os.environ.get("HM_TEST_DIR", "/var/tmp")
        with tempfile.TemporaryDirectory(prefix="hugemap-bare-", dir=files) as scratch:
            clone = pathlib.Path(scratch) / "clone"
            sources.working(clone)
            with Bare(base, clone, scratch) as bare:
                try_demo(bare, tell, suite)
            with Bare(base, clone, scratch) as bare:
                try_a_lock_that_stays(bare, tell, suite)
                try_a_package_that_is_missing(bare, tell, suite)
                try_build(bare, tell, suite)
                try_tests(bare, tell, suite)
                try_python(bare, tell, suite)
    except debian_root.Unavailable as error:
        print(f"skipped: {error}")
        return 77
    return tell.status()


if __name__ == "__main__":
    sys.exit(main())
