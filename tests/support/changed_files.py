"""Files that tests change again and again."""

from pathlib import Path


def write_anew(path: Path, content: bytes | bytearray) -> None:
    """Write a file in the place of what stands there.

    What is truncated and written again goes to the disk as it is closed (ext4), which takes milliseconds.
    """
    path.unlink(missing_ok=True)
    path.write_bytes(content)
