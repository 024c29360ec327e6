"""One picture a message: eight bytes a line under a byte and bit ruler, readable on light and dark pages."""

from __future__ import annotations

from html import escape

from schemas.generator.extent import Extent, Placed

HEADER_BYTES = 64
LINE_BYTES = 8
BYTE_WIDTH = 96
LINE_HEIGHT = 40
BLOCK_HEIGHT = 54
GUTTER = 118
RULER_TOP = 52
RULER_HEIGHT = 34
CHARACTER = 0.61  # width of a monospaced character, in units of the font size

# kind → (words of the legend, fill on light pages, fill on dark pages)
_KINDS = {
    "frame": ("frame header", "#eaeef2", "#262c36"),
    "int": ("number", "#ddf4ff", "#12304f"),
    "enum": ("enumeration", "#fff3bf", "#423408"),
    "bytes": ("bytes, digest", "#dafbe1", "#11391f"),
    "text": ("text", "#f3e8ff", "#37224f"),
    "column": ("column", "#ffe3d3", "#4a2415"),
    "zeros": ("reserved, zero", "#f6f8fa", "#161b22"),
}
_KIND_OF = {"magic": "bytes", "float": "int"}


def type_name(placed: Placed) -> str:
    """The type as programmers write it: uint32, bytes[16], text[32], int32[n], zero[3]."""
    field = placed.field
    scalars = {
        "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "s4": "int32", "f4": "float32", "f8": "float64",
    }  # fmt: skip
    if field.kind == "column":
        return f"{scalars[str(field.kaitai_type)]}[{field.repeat}]"
    if field.kind in ("magic", "bytes"):
        return f"bytes[{field.size}]"
    if field.kind == "zeros":
        return f"zero[{field.size}]"
    if field.kind == "text":
        return f"text[{field.size}]"
    return scalars[str(field.kaitai_type)]


def picture(title: str, description: str, fields: tuple[Placed, ...], *, with_header: bool) -> str:
    """An SVG of `fields`; `with_header` puts the frame header before them, folded into one line."""
    canvas = _Canvas()
    canvas.ruler()
    if with_header:
        canvas.offsets(Extent(0), None)
        canvas.cell(0, LINE_BYTES, LINE_HEIGHT, "frame", "frame header", f"{HEADER_BYTES} bytes, as drawn above")
        canvas.folded(LINE_HEIGHT)
        canvas.y += LINE_HEIGHT
    base = HEADER_BYTES if with_header else 0
    for placed in fields:
        canvas.field(placed, base)
    end = fields[-1].offset + fields[-1].length
    canvas.offsets(Extent(base) + end, end if with_header else None, bold=True)
    canvas.legend()
    return canvas.document(title, description, with_header)


class _Canvas:
    """Collects the elements from top to bottom; `y` is where the next line begins."""

    def __init__(self) -> None:
        self.elements: list[str] = []
        self.used: list[str] = []
        self.y = RULER_TOP + RULER_HEIGHT
        self.width = 2 * GUTTER + LINE_BYTES * BYTE_WIDTH

    def text(self, x: float, y: float, words: str, style: str, size: float = 12) -> None:
        self.elements.append(f'<text class="{style}" x="{x:g}" y="{y:g}" font-size="{size:g}">{escape(words)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str = "rule") -> None:
        self.elements.append(f'<line class="{style}" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>')

    def ruler(self) -> None:
        """Byte numbers over the middle of each byte, bit numbers and ticks under them."""
        top, bottom = RULER_TOP, RULER_TOP + RULER_HEIGHT
        right = GUTTER + LINE_BYTES * BYTE_WIDTH
        self.text(GUTTER - 12, top + 9, "byte", "muted end", 11)
        self.text(GUTTER - 12, top + 24, "bit", "muted end", 9)
        for byte in range(LINE_BYTES):
            left = GUTTER + byte * BYTE_WIDTH
            self.text(left + BYTE_WIDTH / 2, top + 9, str(byte), "muted mid", 11)
            self.text(left + 4, top + 24, str(8 * byte), "muted", 9)
            for bit in range(8):
                x = left + bit * BYTE_WIDTH / 8
                self.line(x, bottom - (9 if bit == 0 else 4), x, bottom)
        self.text(right - 4, top + 24, str(8 * LINE_BYTES - 1), "muted end", 9)
        self.line(right, bottom - 9, right, bottom)

    def offsets(self, frame: Extent, body: Extent | None, *, bold: bool = False) -> None:
        """The line's offset from the start of the frame on the left, from the start of the body on the right."""
        weight = " bold" if bold else ""
        right = GUTTER + LINE_BYTES * BYTE_WIDTH
        for x, side, extent in ((GUTTER - 10, "end", frame), (right + 10, "", body)):
            if extent is not None:
                style = f"muted {side}{weight}".replace("  ", " ").strip()
                terms = [str(extent.fixed)] + [f"+{size}·{name}" for size, name in extent.parts]
                # One term a line where the sum is wider than the gutter.
                lines = ["".join(terms)] if CHARACTER * 11 * len("".join(terms)) <= GUTTER - 16 else terms
                for number, words in enumerate(lines):
                    self.text(x, self.y + 4 + 13 * number, words, style, 11)

    def cell(self, first: int, count: int, height: float, kind: str, name: str, note: str) -> None:
        """A box over `count` bytes from byte `first` of the line, with a name and a note below it."""
        if kind not in self.used:
            self.used.append(kind)
        x, width = GUTTER + first * BYTE_WIDTH, count * BYTE_WIDTH
        box = f'x="{x}" y="{self.y}" width="{width}" height="{height:g}"'
        self.elements.append(f'<rect class="box {kind}" {box}/>')
        if kind == "zeros":
            self.elements.append(f'<rect fill="url(#hatch)" {box}/>')
        middle, centre = self.y + height / 2, x + width / 2
        room = (width - 8) / CHARACTER
        if name:
            self.text(centre, middle - 2, name, "name mid", min(12.5, room / len(name)))
            self.text(centre, middle + 13, note, "muted mid", min(10.5, room / len(note)))

    def folded(self, height: float) -> None:
        """Marks on both edges: the box stands for more lines than it is high."""
        for x in (GUTTER, GUTTER + LINE_BYTES * BYTE_WIDTH):
            middle = self.y + height / 2
            points = f"{x - 7},{middle + 6:g} {x + 7},{middle:g} {x + 7},{middle - 6:g} {x - 7},{middle:g}"
            self.elements.append(f'<polygon class="page" points="{points}"/>')
            self.line(x - 7, middle + 6, x + 7, middle, "edge")
            self.line(x - 7, middle, x + 7, middle - 6, "edge")

    def field(self, placed: Placed, base: int) -> None:
        """The boxes of one field: a folded block when it is long, else one box a line."""
        field = placed.field
        kind = _KIND_OF.get(field.kind, field.kind)
        note = type_name(placed)
        fixed = not placed.offset.parts and not placed.length.parts
        start, size = placed.offset.fixed, placed.length.fixed
        if not fixed or (size > 2 * LINE_BYTES and start % LINE_BYTES == 0 and size % LINE_BYTES == 0):
            self.offsets(Extent(base) + placed.offset, placed.offset if base else None)
            words = f"{note}, {str(placed.length).replace(' ', '')} bytes" if kind == "column" else note
            self.cell(0, LINE_BYTES, BLOCK_HEIGHT, kind, field.name, words)
            self.folded(BLOCK_HEIGHT)
            self.y += BLOCK_HEIGHT
            return
        while size:
            first = start % LINE_BYTES
            count = min(size, LINE_BYTES - first)
            if first == 0:
                self.offsets(Extent(base + start), Extent(start) if base else None)
            begins = start == placed.offset.fixed
            self.cell(first, count, LINE_HEIGHT, kind, field.name if begins else f"… {field.name}", note)
            start, size = start + count, size - count
            if start % LINE_BYTES == 0:
                self.y += LINE_HEIGHT

    def legend(self) -> None:
        """A sample of each fill that the picture uses, in the order of the table above."""
        self.y += 36
        x: float = GUTTER
        for kind, (words, _, _) in _KINDS.items():
            if kind not in self.used:
                continue
            box = f'x="{x:g}" y="{self.y}" width="14" height="14"'
            self.elements.append(f'<rect class="box {kind}" {box}/>')
            if kind == "zeros":
                self.elements.append(f'<rect fill="url(#hatch)" {box}/>')
            self.text(x + 20, self.y + 11, words, "muted", 11)
            x += 20 + 11 * CHARACTER * len(words) + 22
        self.y += 14

    def document(self, title: str, description: str, with_header: bool) -> str:
        """The whole file; the colours follow the reader's preference, on a background of their own."""
        height = self.y + 18
        right = GUTTER + LINE_BYTES * BYTE_WIDTH
        head = [
            f'<text class="name bold" x="{GUTTER}" y="28" font-size="16">{escape(title)}</text>',
            f'<text class="muted end" x="{GUTTER - 10}" y="28" font-size="10">frame offset</text>',
        ]
        if with_header:
            head.append(f'<text class="muted" x="{right + 10}" y="28" font-size="10">body offset</text>')
        light = "".join(f".{kind}{{fill:{fill}}}" for kind, (_, fill, _) in _KINDS.items())
        dark = "".join(f".{kind}{{fill:{fill}}}" for kind, (_, _, fill) in _KINDS.items())
        size = f'width="{self.width}" height="{height}"'
        hatch = '<pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {height}" {size} role="img">',
                f"<title>{escape(title)}</title>",
                f"<desc>{escape(description)}</desc>",
                "<style>",
                "text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}",
                ".mid{text-anchor:middle}.end{text-anchor:end}.bold{font-weight:700}",
                ".page{fill:#ffffff}.name{fill:#1f2328}.muted{fill:#57606a}",
                ".rule,.edge{stroke:#57606a}.box{stroke:#57606a}.hatch{stroke:#c4ccd4}",
                light,
                "@media (prefers-color-scheme:dark){",
                ".page{fill:#0d1117}.name{fill:#f0f6fc}.muted{fill:#a8b1bb}",
                ".rule,.edge{stroke:#8b949e}.box{stroke:#8b949e}.hatch{stroke:#3d444d}",
                dark,
                "}",
                "</style>",
                f'<defs>{hatch}<line class="hatch" x1="0" y1="0" x2="0" y2="7"/></pattern></defs>',
                f'<rect class="page" {size} rx="8"/>',
                *head,
                *self.elements,
                "</svg>",
                "",
            ]
        )
