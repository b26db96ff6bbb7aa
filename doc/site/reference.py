"""Makes the reference pages of C and of Python from the sources.

The C page consists of the comments and declarations of the installed headers, the
Python page of signatures and docstrings. Neither needs a compiler, or an installed
h5z_terp. A function without documentation is an error."""
import ast
import re
import textwrap

PAGE = re.compile(r"doc/([\w/-]+\.md)")
IDENTIFIER = re.compile(PAGE.pattern.replace("(", "(?:") + r"|`[^`]*`|[A-Za-z]\w*(?:(?:->|\.(?=[a-z]))\w+)*"
                        r"(?:\[[^\]]*\])?(?:\.\w+)?")


class Undocumented(Exception):
    """A public function has no documentation."""


def escaped(text):
    return re.sub(r"([*\\_])", r"\\\1", text).replace("<", "&lt;")


# ---- C ----


def installed_headers(root):
    """The headers that cmake/Install.cmake names, in its order."""
    text = (root / "cmake/Install.cmake").read_text(encoding="utf-8")
    return re.findall(r"\S+\.h\b", " ".join(
        re.findall(r"install\(FILES (.*?)DESTINATION", text, re.DOTALL)))


def constructs(text):
    """The comments and declarations of a header: pairs of kind and text. The kind
    is "comment", "define", "code" or "blank"."""
    text = re.sub(r"(?ms)^#ifdef __\w+\n.*?^#endif.*?\n", "", text)
    lines = [line for line in text.split("\n")
             if not re.match(r"#(include|ifndef|endif|define \w+_H$)", line)]
    while lines:
        taken = [lines.pop(0)]
        if not taken[0].strip():
            kind = "blank"
        elif taken[0].startswith("/*"):
            kind = "comment"
            while "*/" not in taken[-1]:
                taken.append(lines.pop(0))
        elif taken[0].startswith("#"):
            kind = "define"
        else:
            kind = "code"
            while ("\n".join(taken).count("{") != "\n".join(taken).count("}") or
                   not re.search(r"[;}]\s*(/\*.*\*/)?$", taken[-1])):
                taken.append(lines.pop(0))
        yield kind, "\n".join(taken)


def declaration(code):
    """A declaration without the body of a function."""
    if re.match(r"(?:static inline )?[^{;]*\([^{;]*\)\s*\{", code):
        code = code[:code.index("{")].rstrip() + ";"
    return code.replace("static inline ", "").strip()


TYPE = re.compile(r"(?:enum|struct) (\w+)\s*[{;]")


def name_of(kind, code):
    if kind == "define":
        return re.match(r"#define (\w+)", code).group(1)
    return (TYPE.match(code) or re.search(r"(\w+)\(", code)).group(1)


def title(item):
    kind, code = item
    keyword = code.split()[0] + " " if TYPE.match(code) else ""
    return f"`{keyword}{name_of(kind, code)}`"


def names_within(kind, code):
    """The name that is declared, and the constants of an enum."""
    names = [name_of(kind, code)]
    if code.startswith("enum"):
        code = re.sub(r"(?s)/\*.*?\*/", "", code)
        names += re.findall(r"(?m)^\s+(\w+)(?: =|,|$)", code)
    return names


def groups_of(text):
    """Consecutive constructs without a blank line between them."""
    group = []
    for kind, code in constructs(text):
        if kind != "blank" and not (kind == "comment" and group and
                                    group[-1][0] != "comment"):
            group.append((kind, code))
            continue
        if group:
            yield group
        group = [] if kind == "blank" else [(kind, code)]
    if group:
        yield group


def paragraphs(comment):
    text = re.sub(r"^/\*\s?|\s*\*/$", "", comment)
    text = "\n".join(re.sub(r"^ \* ?", "", line) for line in text.split("\n"))
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]


def prose(text, anchors):
    """A paragraph as Markdown: names become code, and known names and pages become
    links."""
    parts, end = [], 0
    for found in IDENTIFIER.finditer(text):
        word = found.group().strip("`")
        base = re.match(r"\w*", word).group()
        page = PAGE.match(word)
        if not (page or found.group()[0] == "`" or re.search(r"[_\[]|->", word)):
            continue
        code = f"[{word}](../{page.group(1)})" if page else f"`{word}`"
        if base in anchors:
            code = f"[{code}]({anchors[base]})"
        parts += [escaped(text[end:found.start()]), code]
        end = found.end()
    return "".join(parts) + escaped(text[end:])


def c_page(root):
    """The page about the headers."""
    headers = {path.rsplit("/", 1)[-1]: list(groups_of(
        (root / path).read_text(encoding="utf-8")))
        for path in installed_headers(root)}
    anchors = {}
    for groups in headers.values():
        for group in groups:
            named = [item for item in group if item[0] != "comment"]
            for kind, code in named:
                for name in names_within(kind, code):
                    anchors[name] = "#" + name_of(kind, code)
    page = ["# C reference\n",
            "These are the comments and declarations of the installed headers."
            " Programs include `h5z_terp.h`, and the other headers as"
            " `terp/terp.h` and `terp/terp_h5.h`."]
    for header, groups in headers.items():
        page.append(f"\n## {header}\n")
        for i, group in enumerate(groups):
            texts = [paragraphs(code) for kind, code in group
                     if kind == "comment"]
            named = [item for item in group if item[0] != "comment"]
            section = re.match(r"/\* ---- (.*) ---- \*/$", group[0][1])
            if section:
                page.append(f"\n### {section.group(1).capitalize()}\n")
                continue
            if not named:
                if i > 0:
                    raise Undocumented(f"{header}: a comment is about nothing: "
                                       f"{group[0][1][:60]}")
            for kind, code in named:
                if not texts and kind == "code" and not TYPE.match(code):
                    raise Undocumented(f"{header}: {name_of(kind, code)}")
            if named:
                names = [name_of(*item) for item in named]
                page += [f'<a id="{name}"></a>' for name in names]
                page += ["\n#### " + ", ".join(map(title, named[:4]))
                         + (" and others" if len(named) > 4 else "") + "\n",
                         *("    " + line if line else "" for _, code in named
                           for line in declaration(code).split("\n")), ""]
            page += [prose(text, anchors) + "\n"
                     for parts in texts for text in parts]
    return "\n".join(page) + "\n"


# ---- Python ----


def markdown(docstring):
    """A docstring's reStructuredText as Markdown."""
    def inline(part):
        if part.startswith("``"):
            return "`" + " ".join(part.strip("`").split()) + "`"
        page = PAGE.fullmatch(part)
        return f"[{part}](../{page.group(1)})" if page else escaped(part)

    text = re.sub(r"(?<=\S)::\n", ":\n", docstring)
    return "\n\n".join(
        block if block.startswith("    ") else
        "".join(map(inline, re.split(r"(?s)(``.*?``|doc/[\w/-]+\.md)", block)))
        for block in text.split("\n\n"))


def signature(name, function):
    arguments = function.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        del arguments.args[0]
    # A line ends only between arguments.
    text = re.sub(r"(?<!,) ", "\0", ast.unparse(arguments))
    text = f"{name}({text})".replace("=", "\0=\0")
    if function.returns and ast.unparse(function.returns) != "None":
        text += f" -> {ast.unparse(function.returns)}"
    lines = textwrap.wrap(text, 84, subsequent_indent=" " * (len(name) + 1),
                          break_long_words=False, break_on_hyphens=False)
    return "\n".join("    " + line for line in lines).replace("\0", " ")


def is_property(function):
    return any(ast.unparse(decorator) == "property"
               for decorator in function.decorator_list)


def documented(node, name):
    text = ast.get_docstring(node)
    if not text:
        raise Undocumented(f"h5z_terp: {name}")
    return markdown(text)


def object_text(name, node):
    """The documentation of a function, or of a class and its public methods that
    have docstrings."""
    if isinstance(node, ast.FunctionDef):
        return [f"## `{name}`\n", signature(name, node) + "\n",
                documented(node, name) + "\n"]
    methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
    text = [f"## `{name}`\n"]
    for method in methods:
        if method.name == "__init__":
            text.append(signature(name, method) + "\n")
    text.append(documented(node, name) + "\n")
    for method in methods:
        if method.name.startswith("_") or not ast.get_docstring(method):
            continue
        text += [f"### `{name}.{method.name}`\n",
                 (f"    {name}.{method.name}" if is_property(method) else
                  signature(f"{name}.{method.name}", method)) + "\n",
                 documented(method, method.name) + "\n"]
    return text


def python_page(root):
    """The page about the package's public names."""
    package = root / "python/h5z_terp"

    def parse(module):
        return ast.parse((package / f"{module}.py").read_text(encoding="utf-8"))

    init = parse("__init__")
    modules = {alias.name: node.module for node in init.body
               if isinstance(node, ast.ImportFrom) and node.module
               for alias in node.names}
    names = next(ast.literal_eval(node.value) for node in init.body
                 if isinstance(node, ast.Assign) and
                 node.targets[0].id == "__all__")
    page = ["# Python reference\n", markdown(ast.get_docstring(init)) + "\n"]
    for name in sorted(names, key=str.lower):
        for node in parse(modules[name]).body:
            if getattr(node, "name", None) == name:
                page += object_text(name, node)
    for module, name in (("zarr", "TerpCodec"), ("numcodecs", "TerpCodec"),
                         ("torch", "SampleDataset")):
        for node in parse(module).body:
            if getattr(node, "name", None) == name:
                page += object_text(f"{module}.{name}", node)
    missing = [name for name in names if f"`{name}`" not in "".join(
        line for line in page if line.startswith("## "))]
    constants = {"FILTER_ID": "The filter's number in HDF5, 46117.",
                 "PLUGIN_DIR": "The folder of the plugin and the connector."}
    if set(missing) != set(constants):
        raise Undocumented(f"h5z_terp: {missing} is not {list(constants)}")
    page += [f"## `{name}`\n\n{text}\n" for name, text in constants.items()]
    return "\n".join(page)
