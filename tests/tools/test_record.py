# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""tools/record.py: a recording has the output of the command, and a picture shows each screen."""
import glob
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

TOP = pathlib.Path(__file__).resolve().parents[2]
TOOL = TOP / "tools/record.py"
SVG = "{http://www.w3.org/2000/svg}"
# A line of progress that is rewritten and then removed, and a result.
COMMAND = ["sh", "-c", r"printf '\r\033[Kturn 1'; sleep 0.1; printf '\r\033[K'; echo 'a < b  %'; exit 3"]


def record(*words):
    return subprocess.run([TOOL, *words], capture_output=True, text=True)


class Record(unittest.TestCase):
    def test_each_screen_of_a_recording_is_in_the_picture(self):
        with tempfile.TemporaryDirectory() as work:
            cast, svg = f"{work}/a.cast", f"{work}/a.svg"
            self.assertEqual(record("record", cast, *COMMAND).returncode, 3)
            with open(cast) as file:
                header, *events = [json.loads(line) for line in file]
            self.assertEqual((header["version"], header["width"]), (2, 80))
            self.assertEqual([kind for _, kind, _ in events], ["o"] * len(events))
            self.assertEqual(record("draw", cast, svg).returncode, 0)
            frames = [[text.text for text in group] for group in
                      xml.etree.ElementTree.parse(svg).getroot().iter(f"{SVG}g")]
            self.assertIn("turn 1", frames[1])
            self.assertEqual(frames[-1][1:], ["a < b  %"])

    def test_pictures_are_made_of_the_recordings_and_suit_light_and_dark(self):
        recordings = glob.glob(f"{TOP}/docs/*.cast")
        self.assertTrue(recordings)
        for cast in recordings:
            picture = cast.removesuffix("cast") + "svg"
            with self.subTest(os.path.basename(cast)), tempfile.NamedTemporaryFile() as drawn:
                record("draw", cast, drawn.name)
                self.assertEqual(drawn.read().decode(), pathlib.Path(picture).read_text(encoding="utf-8"))
            text = pathlib.Path(picture).read_text(encoding="utf-8")
            self.assertIn("prefers-color-scheme: dark", text)
            lines = [line.text for line in xml.etree.ElementTree.parse(picture).getroot().iter(f"{SVG}text")]
            self.assertLessEqual(max(map(len, lines)), 80)

    def test_a_wrong_command_line_prints_the_usage(self):
        for words in ([], ["draw"], ["record", "file"]):
            result = record(*words)
            self.assertEqual(result.returncode, 2)
            self.assertIn("record.py record", result.stderr)


if __name__ == "__main__":
    unittest.main()
