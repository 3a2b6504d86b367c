"""Makes docs/demo.svg from what the real program prints: python docs/pictures.py"""

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
STYLES = {"  model  ->": "cyan", "  memory <-": "green", "  stderr <-": "red", "  answer <-": "red"}


def main() -> None:
    printed = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py"], capture_output=True, text=True, check=True
    ).stdout
    console = Console(record=True, width=104, file=StringIO())
    console.print(Text("$ make demo", style="bold"))
    friday = printed[printed.index("3. Friday") :]
    style = ""
    for line in friday.splitlines():
        style = next((style for start, style in STYLES.items() if line.startswith(start)), style)
        if not line.startswith("            ") and not any(line.startswith(start) for start in STYLES):
            style = "bold" if line[:1].isdigit() or line.startswith("   ") else "dim"
        console.print(Text(line, style=style))
    svg = console.export_svg(title="memory-sidecar", unique_id="demo")
    # A picture that loads nothing: the reader's own monospaced font will do.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    (ROOT / "docs" / "demo.svg").write_text(re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL))


if __name__ == "__main__":
    main()
