# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The shells complete exactly the commands and options that --help lists.

Each shell runs with only the completions of this tree. A shell that is not installed is skipped.
"""
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from common import HUGEMAP, LONG, MAPPER, ROOT, FakeMount, hugemap

COMPLETIONS = os.path.join(ROOT, "completions")
PATIENCE = 60  # seconds, for a shell that hangs


def commands():
    return re.findall(r"(?m)^  ([a-z]+)  +\S", hugemap("help").stdout)


def options(command):
    text = hugemap("help", *command.split()).stdout
    found = re.findall(r"(?m)^  (?:(-\w), )?(--[a-z-]+)", text)
    return {word for pair in found for word in pair if word}


def listed(title):
    text = hugemap("help", "bench").stdout
    return set(re.search(rf"(?m)^{title}: (.*(?:\n  .*)*)$", text)[1].split())


def is_served(pid):
    """Whether steering works here. The monitor thread starts beside the program, and reports a little later."""
    if not json.loads(hugemap("doctor", "--json").stdout)["checks"]["steering"]["pagemap"]:
        return False
    end = time.monotonic() + LONG
    while f"{pid}  " not in hugemap("stat").stdout:
        if time.monotonic() > end:
            raise AssertionError(f"hugemap stat never told of {pid}")
        time.sleep(0.05)
    return True


class Shell:
    """A shell that returns its completions after some words."""

    def __init__(self, directory, env):
        self.directory = directory
        self.env = {**env, "PATH": f"{directory}/bin:{os.environ['PATH']}", "HOME": directory,
                    "LC_ALL": "C.UTF-8", "TERM": "dumb"}


class Bash(Shell):
    def offers(self, *words):
        # Split the words as readline does, which also splits at "=".
        line = [part for word in words for part in re.split("(=)", word) if part or not word]
        script = f"""
            . {shlex.quote(COMPLETIONS)}/hugemap.bash
            [[ $(complete -p hugemap) == 'complete -F _hugemap hugemap' ]] || exit 1
            COMP_WORDS=(hugemap "$@") COMP_CWORD=$#
            _hugemap hugemap "${{@: -1}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
            [[ ${{#COMPREPLY[@]}} -eq 0 ]] || printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = subprocess.run(["bash", "--norc", "-c", script, "bash", *line], cwd=self.directory,
                              capture_output=True, text=True, env=self.env, timeout=PATIENCE)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout.splitlines()


class Fish(Shell):
    def offers(self, *words):
        line = " ".join(["hugemap", *(shlex.quote(word) if word else "" for word in words)])
        script = f"source {shlex.quote(COMPLETIONS)}/hugemap.fish; complete -C {shlex.quote(line)}"
        done = subprocess.run(["fish", "--no-config", "-c", script], cwd=self.directory,
                              capture_output=True, text=True, env=self.env, timeout=PATIENCE)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return [re.sub(r"^--[a-z-]+=", "", text.split("\t")[0]) for text in done.stdout.splitlines()]


# Matches go to a file instead of the terminal; "." is the end of them.
ZSH = r"""
PS1= ; unsetopt beep; fpath=(%(completions)s $fpath); autoload -Uz compinit; compinit -u -d %(dump)s
compadd() {
	local -a found
	if [[ " ${(j: :)@} " != *" -"[OAD]" "* ]]; then
		builtin compadd -O found "$@"
		print -rl -- $found >>%(answer)s
	fi
	builtin compadd "$@"
}
ended() { print -r . >>%(answer)s }
complete-word-once() { comppostfuncs=(ended); zle complete-word }
zle -N complete-word-once; bindkey '^I' complete-word-once
setopt no_always_last_prompt; LISTMAX=9999; zstyle ':completion:*' list-prompt ''
print -r ready >>%(answer)s
"""


class Zsh(Shell):
    def read(self, answer, end):
        since = time.monotonic()
        while time.monotonic() - since < PATIENCE:
            if os.path.exists(answer):
                with open(answer) as file:
                    lines = file.read().split("\n")
                if end in lines:
                    return lines[:lines.index(end)]
            time.sleep(0.01)
        raise TimeoutError(f"zsh does not answer; on its terminal: {self.said!r}")

    def follow(self, terminal):
        while True:
            try:
                self.said += os.read(terminal, 4096)
            except OSError:
                return

    def offers(self, *words):
        answer = os.path.join(self.directory, "answer")
        script = os.path.join(self.directory, "setup.zsh")
        with open(script, "w") as file:
            file.write(ZSH % {name: shlex.quote(path) for name, path in (
                ("completions", COMPLETIONS), ("answer", answer),
                ("dump", os.path.join(self.directory, "zcompdump")))})
        self.said = b""
        pid, terminal = pty.fork()
        if not pid:
            os.chdir(self.directory)
            os.execvpe("zsh", ["zsh", "-f", "-i"], self.env)
        reader = threading.Thread(target=self.follow, args=[terminal])
        reader.start()
        try:
            os.write(terminal, f". {shlex.quote(script)}\n".encode())
            self.read(answer, "ready")
            os.unlink(answer)
            os.write(terminal, " ".join(["hugemap", *words]).encode() + b"\t")
            lines = self.read(answer, ".")
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            reader.join()
            os.close(terminal)
            for path in (answer, script):
                if os.path.exists(path):
                    os.unlink(path)
        return [line for line in lines if line]


class Offers:
    """The tests for all shells."""

    shell = None

    @classmethod
    def setUpClass(cls):
        name = cls.shell.__name__.lower()
        if not shutil.which(name):
            raise unittest.SkipTest(f"{name} is not installed")
        # Two files, a directory, and the command by its name.
        cls.directory = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        os.makedirs(f"{cls.directory}/bin")
        os.symlink(HUGEMAP, f"{cls.directory}/bin/hugemap")
        for name in ("data one", "data-two"):
            with open(f"{cls.directory}/{name}", "w"):
                pass
        os.mkdir(f"{cls.directory}/data-dir")

    def offers(self, *words, env=os.environ):
        found = self.shell(self.directory, env).offers(*words)
        return [re.sub(r"\\(.)", r"\1", word).rstrip("/ ") for word in found]

    def test_commands_are_completed(self):
        self.assertGreater(len(commands()), 8)
        self.assertEqual(sorted(self.offers("")), sorted(commands()))
        self.assertEqual(set(self.offers("sta")), {"stat"})
        self.assertEqual(set(self.offers("help", "d")), {"doctor"})

    def test_options_of_every_command_are_completed(self):
        parts = {f"bench {part}" for part in ("ycsb", "graph", "direct", "cached", "curve")}
        for command in set(commands()) - {"help"} | parts:
            wanted = options(command)
            self.assertIn("--help", wanted)
            with self.subTest(command):
                words = command.split()
                found = set(self.offers(*words, "-")) | set(self.offers(*words, "--"))
                # zsh marks options with an argument by "=".
                self.assertEqual({word.rstrip("=") for word in found}, wanted)

    def test_words_of_an_option_are_completed(self):
        for words, wanted in (
                (["bench", "--page", ""], {"auto", "2M", "4K"}),
                (["bench", "--page="], {"auto", "2M", "4K"}),
                (["bench", "--scenario", ""], listed("Scenarios")),
                (["bench", "--quick", "--engine", ""], listed("Engines")),
                (["bench", ""], {"ycsb", "graph", "direct", "cached", "curve"}),
                (["bench", "yc"], {"ycsb"}),
                (["bench", "ycsb", "--store", ""], {"lmdb", "rocksdb"}),
                (["bench", "direct", "--block", ""], {"64K", "1M"}),
                (["bench", "direct", "--target", ""], {"small", "thp", "hugetlb", "mapping"}),
                (["bench", "graph", "--algorithm", ""], {"bfs", "pagerank"}),
                (["bench", "ycsb", "--distribution", ""], {"zipfian", "uniform"}),
                (["top", "--sort", ""], {"read", "write", "faults", "hits", "dirty", "evictions",
                                         "latency", "name"}),
                (["run", "--min-size", ""], set())):
            with self.subTest(words):
                self.assertEqual(set(self.offers(*words)), wanted)

    def test_files_of_an_option_are_completed(self):
        self.assertEqual(set(self.offers("bench", "--file", "data")),
                         {"data one", "data-two", "data-dir"})
        self.assertEqual(set(self.offers("doctor", "--dir", "data")), {"data-dir"})

    def test_operands_are_completed(self):
        self.assertEqual(set(self.offers("mount", "data-d")), {"data-dir"})
        self.assertEqual(set(self.offers("version", "data")), set())

    def test_a_program_after_run_is_completed_as_if_typed_alone(self):
        self.assertIn("hugemap", self.offers("run", "huge"))
        for before in (["run", "-v"], ["run", "--min-size", "4M", "--summary"], ["run", "--"],
                       ["run"], ["check"], ["check", "--turns", "1", "--"]):
            with self.subTest(before):
                self.assertEqual(set(self.offers(*before, "hugemap", "data-t")) |
                                 set(self.offers(*before, "cat", "data-t")), {"data-two"})

    def test_attach_completes_running_processes(self):
        self.assertIn(str(os.getpid()), self.offers("attach", ""))
        self.assertIn(str(os.getpid()), self.offers("attach", "--dry-run", str(os.getpid())[:2]))

    def test_stat_completes_processes_and_mounts(self):
        fake = FakeMount()
        self.addCleanup(fake.remove)
        data = f"{self.directory}/data-two"
        with open(data, "wb") as file:
            file.write(b"\1" * (8 << 20))
        env = {k: v for k, v in fake.env.items() if k != "LD_PRELOAD"}
        mapper = subprocess.Popen(
            [HUGEMAP, "run", "--min-size", "1M", "python3", "-c", MAPPER, data],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        try:
            self.assertEqual(mapper.stdout.readline(), "ready\n")
            served = is_served(mapper.pid)
            found = self.offers("stat", "", env=env)
            self.assertEqual(str(mapper.pid) in found, served)
            self.assertIn(fake.directory, found)
            self.assertIn("data-two", found)
            self.assertEqual(self.offers("umount", "", env=env), [fake.directory])
            self.assertEqual(self.offers("umount", "/nowhere", env=env), [])
        finally:
            mapper.communicate()


class InBash(Offers, unittest.TestCase):
    shell = Bash


class InFish(Offers, unittest.TestCase):
    shell = Fish


class InZsh(Offers, unittest.TestCase):
    shell = Zsh


if __name__ == "__main__":
    unittest.main()
