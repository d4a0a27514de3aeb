"""HTML pages in tests: their elements, and their DOM in a browser."""

import json
import shutil
from html.parser import HTMLParser

from commands import run_command

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Elements(HTMLParser):
    """Parser that collects tags with their attributes, and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.scripts = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data


def data_of(text):
    return json.loads(Elements(text).scripts[0])


def run(path, tmp_path, width=700):
    """Return the DOM after the scripts have run, and the lines of the console."""
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    command += ["--enable-logging=stderr", "--virtual-time-budget=600", f"--window-size={width},700"]
    done = run_command([*command, "--dump-dom", path.as_uri()], timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
