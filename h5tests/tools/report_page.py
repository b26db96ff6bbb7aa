"""Reads the pages of `terp report` for its tests."""
import base64
import html.parser
import re

VOID = {"meta", "img", "br"}
ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p",
    "ul", "li", "table", "caption", "thead", "tbody", "tr", "th", "td", "a",
    "bdi", "data", "span", "strong", "code", "section", "div", "figure",
    "figcaption", "img", "svg", "line", "text", "rect", "path", "dl", "dt",
    "dd", "footer",
}
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "id", "scope",
    "data-name", "data-verdict", "href", "value", "src", "alt", "width",
    "height", "role", "aria-label", "viewbox", "x", "y", "x1", "y1", "x2", "y2",
    "text-anchor", "d", "style",
}


class Page(html.parser.HTMLParser):
    """A page of terp report. Fails for elements and attributes that such a page
    does not have (others may load or run something), and for elements that are
    not closed.

    `text` is the text of the body. `sections` has, by number, the text and the
    figures of each section; `sections[0]` is the rest of the body."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.styles, self.policy = [], "", "", None
        self.tables = []
        self.title, self.images, self.links, self.ids = "", [], [], []
        self.sections = {0: Section("")}
        self.here = self.sections[0]
        self.rows = []
        self.feed(source)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, pairs):
        assert tag in ELEMENTS, tag
        attributes = dict(pairs)
        assert len(attributes) == len(pairs), pairs
        for name, value in attributes.items():
            assert name in ATTRIBUTES, name
            if name == "src":
                assert value.startswith("data:image/gif;base64,"), value[:80]
            if name == "href":
                assert value.startswith("#d"), value
            if name == "style":
                assert re.fullmatch(r"aspect-ratio:\d+/\d+", value), value
        if tag not in VOID:
            self.open.append(tag)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "meta" and "http-equiv" in attributes:
            self.policy = attributes["content"]
        elif tag == "section":
            self.here = Section(attributes["id"])
            self.sections[int(attributes["id"][1:])] = self.here
        elif tag == "img":
            self.images.append(attributes["src"])
            self.here.images.append((attributes["alt"], attributes["src"]))
        elif tag == "a":
            self.links.append(attributes["href"])
        elif tag == "data":
            value = attributes["value"]
            self.here.figures.setdefault(attributes["class"], []).append(
                float(value) if value else None)
        elif tag == "svg":
            self.here.charts.append(attributes["aria-label"])
        elif tag == "tr" and "contents" in self.context() and (
                "tbody" in self.open):
            self.rows.append("")
        if tag == "table":
            self.tables.append(attributes["class"])
        if "data-verdict" in attributes:
            self.here.verdicts.append(attributes["data-verdict"])

    def context(self):
        return self.tables[-1:] if "table" in self.open else []

    def handle_startendtag(self, tag, pairs):
        self.handle_starttag(tag, pairs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()
        if tag == "section":
            self.here = self.sections[0]

    def handle_comment(self, data):
        raise AssertionError(data)

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.styles += data
        elif self.open and self.open[-1] == "title":
            self.title += data
        else:
            self.text += data
            self.here.text += data
            if "contents" in self.context() and self.rows:
                self.rows[-1] += data


class Section:
    def __init__(self, name):
        self.name, self.text = name, ""
        self.figures, self.images, self.charts, self.verdicts = {}, [], [], []

    def one(self, name):
        values = self.figures[name]
        assert len(values) == 1, (name, values)
        return values[0]


def gif_pixels(uri):
    """Rows of pixels (indices), and the palette, of a GIF in a data URI."""
    prefix = "data:image/gif;base64,"
    assert uri.startswith(prefix), uri[:40]
    data = base64.b64decode(uri[len(prefix):], validate=True)
    assert data[:6] == b"GIF87a"
    nx, ny = data[6] | data[7] << 8, data[8] | data[9] << 8
    ncolours = 2 << (data[10] & 7)
    at = 13 + 3 * ncolours
    palette = [tuple(data[i:i + 3]) for i in range(13, at, 3)]
    assert data[at:at + 10] == bytes((0x2C, 0, 0, 0, 0, *data[6:10], 0))
    depth, at, coded = data[at + 10], at + 11, b""
    while data[at] > 0:
        coded += data[at + 1:at + 1 + data[at]]
        at += 1 + data[at]
    assert data[at:] == b"\0;"
    clear, end = 1 << depth, (1 << depth) + 1
    bits, nbits, width, strings, last, pixels = 0, 0, depth + 1, [], None, []
    ended = False
    for byte in coded:
        bits |= byte << nbits
        nbits += 8
        while nbits >= width and not ended:
            code = bits & (1 << width) - 1
            bits >>= width
            nbits -= width
            if code == clear:
                strings = [(i,) for i in range(clear)] + [None, None]
                width, last = depth + 1, None
                continue
            if code == end:
                ended = True
                continue
            if last is None:
                string = strings[code]
            else:
                string = (strings[code] if code < len(strings)
                          else last + last[:1])
                if len(strings) < 4096:
                    strings.append(last + string[:1])
            pixels += string
            last = string
            if len(strings) == 1 << width and width < 12:
                width += 1
    assert ended and len(pixels) == nx * ny, (ended, len(pixels), nx, ny)
    return [pixels[i * nx:(i + 1) * nx] for i in range(ny)], palette
