"""What a built site must hold: links that lead somewhere, and a search that works from a disk."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_SEARCHED = {"make_map": "make_map", "1/f noise": "noise", "MapMaker": "toast"}  # words, and what is found


def broken_links(site: Path) -> list[str]:
    """Return the links of all pages that lead to no file of the site, or to no place in it."""
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    places = {page: set(re.findall(r'\s(?:id|name)="([^"]+)"', text)) for page, text in pages.items()}
    broken = []
    for page, text in pages.items():
        base = site if page.name == "404.html" else page.parent
        for link in set(re.findall(r'\s(?:href|src)="([^"]+)"', text)):
            parts = urlsplit(unescape(link))
            if parts.scheme or parts.netloc:
                continue
            path = (
                base / unquote(parts.path.lstrip("/") if base == site else parts.path) if parts.path else page
            )
            target = (path / "index.html" if path.is_dir() else path).resolve()
            place = unquote(parts.fragment)
            if not target.exists():
                broken.append(f"{page.relative_to(site)} links to {link}, which is not there")
            elif place and target in places and place not in places[target] | {"__top", "top"}:
                broken.append(f"{page.relative_to(site)} links to {link}: no such place")
    return broken


def failed_searches(site: Path) -> list[str]:
    """Return what the search of a site does not find when it is opened from a disk; needs Chromium."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        print("no Chromium: the search was not tried")
        return []
    failed = []
    with tempfile.TemporaryDirectory() as profile:
        for words, found in _SEARCHED.items():
            address = f"{(site / 'index.html').as_uri()}?q={words.replace(' ', '+')}"
            command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                       "--virtual-time-budget=15000", "--dump-dom", address]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
            results = re.findall(r'<a href="([^"]+)" class="md-search-result__link"', done.stdout)
            if not any(found in one for one in results):
                failed.append(f"a search for '{words}' finds {results[:3]}")
    return failed
