"""Write every generated file, or with `--check` fail when one differs from what the schemas say."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from schemas.generator import model

ROOT = Path(__file__).resolve().parent.parent.parent
# In this order: the vectors are made with the code that the first one writes.
OUTPUTS = ("python_output", "docs_output", "protocol_output", "c_output", "lua_output", "vectors_output")


def main() -> int:
    """Generate; exit status 1 when `--check` finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m schemas.generator", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; name the files that differ and exit 1")
    check = parser.parse_args().check
    schema = model.load()
    differing = []
    for name in OUTPUTS:
        for path, text in importlib.import_module(f"schemas.generator.{name}").render(schema).items():
            file = ROOT / path
            if file.exists() and file.read_text(encoding="utf-8") == text:
                continue
            differing.append(path)
            if not check:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
    for path in differing:
        print(f"{'differs from the schemas: ' if check else 'written: '}{path}")
    if check and differing:
        print("run `make schemas` and commit what it writes", file=sys.stderr)
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
