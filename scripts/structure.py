#!/usr/bin/env python3
"""Measures the structure of the Rust code: lines of product code by crate, long functions, long files, import cycles.

    scripts/structure.py [--list] [--registries] [--crate NAME]

Product code is what crates/*/src has outside tests and fixtures, without comments and blank lines. A function's length is
that from the line of its `fn` to its closing brace. A file imports another of its crate if a path in it (`use` or in
place) leads to an item there; re-exports are followed to the file that defines the item. A cycle is a set of files that
all import each other, directly or not; its size is their number. That a module names its own children (a registry, a
facade) makes no cycle of itself: such imports are left out, unless --registries is given.
"""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "crates")
LONG_FUNCTION = 60
LONG_FILE = 500

TOKEN = re.compile(
    r"""(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)
    |(?P<raw>\b(?:b|c)?r(?P<h>\#*)".*?"(?P=h))
    |(?P<str>\b[bc]?"(?:\\.|[^"\\])*"|"(?:\\.|[^"\\])*")
    |(?P<chr>b?'(?:\\x..|\\u\{[^}]*\}|\\.|[^'\\\n])')""",
    re.S | re.X,
)


def blank(text, keep_strings):
    """The text with comments (and the content of strings) replaced by spaces, line by line the same."""

    def put(m):
        if keep_strings and m.lastgroup not in ("line", "block"):
            return m.group(0)
        if m.group("line") or m.group("block"):
            return re.sub(r"[^\n]", " ", m.group(0))
        return '"' + re.sub(r"[^\n]", " ", m.group(0)[1:-1]) + '"'

    return TOKEN.sub(put, text)


def closing(text, at):
    """The position after the brace that closes the one at `at`."""
    depth = 0
    for m in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if m.group(0) == "{" else -1
        if depth == 0:
            return m.end()
    return len(text)


class File:
    def __init__(self, path, module):
        self.path = path
        self.module = module
        self.text = open(path, encoding="utf-8").read()
        self.bare = blank(self.text, False)
        self.code = blank(self.text, True)
        self.mask_tests()

    def mask_tests(self):
        """Blanks items under cfg(test), and remembers test modules in files of their own."""
        self.test_mods = set()
        for m in list(re.finditer(r"#\[cfg\((?:test|all\(test[^\]]*)\)?\]", self.bare)):
            after = re.compile(r"(?:\s|#\[[^\]]*\])*((?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;)?").match(self.bare, m.end())
            if after and after.group(1):
                self.test_mods.add(after.group(2))
                end = after.end()
            else:
                stop = re.compile(r"[{;]").search(self.bare, m.end())
                if not stop:
                    continue
                end = closing(self.bare, stop.start()) if stop.group(0) == "{" else stop.end()
            hole = lambda s: s[: m.start()] + re.sub(r"[^\n]", " ", s[m.start() : end]) + s[end:]
            self.bare, self.code = hole(self.bare), hole(self.code)

    def lines(self):
        return sum(1 for line in self.code.split("\n") if line.strip())

    def functions(self):
        for m in re.finditer(r"\bfn\s+(\w+)", self.bare):
            stop = re.compile(r"[{;]").search(self.bare, m.end())
            depth = 0
            for s in re.compile(r"[{};\[\]()]").finditer(self.bare, m.end()):
                c = s.group(0)
                if c in "[(":
                    depth += 1
                elif c in "])":
                    depth -= 1
                elif depth == 0:
                    stop = s
                    break
            if not stop or stop.group(0) != "{":
                continue
            end = closing(self.bare, stop.start())
            yield m.group(1), self.bare.count("\n", 0, m.start()) + 1, self.bare.count("\n", m.start(), end) + 1


def crate_files(crate):
    """The product files of a crate by module path."""
    src = os.path.join(ROOT, crate, "src")
    out, tests = {}, set()
    for folder, _, names in sorted(os.walk(src)):
        for name in sorted(names):
            if not name.endswith(".rs"):
                continue
            path = os.path.join(folder, name)
            parts = os.path.relpath(path, src)[:-3].split(os.sep)
            if parts[-1] == "mod" or parts in (["lib"], ["main"]):
                parts = parts[:-1]
            if any(p == "tests" or p.startswith("fixture") for p in parts):
                continue
            module = tuple(parts)
            file = File(path, module)
            if module in out:
                module = module + ("main",)
            out[module] = file
            tests |= {module + (t,) for t in file.test_mods}
    return {m: f for m, f in out.items() if not any(m[: len(t)] == t for t in tests)}


def expand(tree, prefix=()):
    """The paths of a use tree: (path, name under which it is known)."""
    tree = tree.strip()
    depth, parts, start = 0, [], 0
    for i, c in enumerate(tree):
        depth += (c == "{") - (c == "}")
        if c == "," and depth == 0:
            parts.append(tree[start:i])
            start = i + 1
    parts.append(tree[start:])
    for part in (p.strip() for p in parts):
        if not part:
            continue
        brace = part.find("{")
        if brace >= 0:
            head = tuple(s.strip() for s in part[:brace].split("::") if s.strip())
            yield from expand(part[brace + 1 : part.rfind("}")], prefix + head)
            continue
        as_ = re.split(r"\s+as\s+", part)
        path = prefix + tuple(s.strip() for s in as_[0].split("::"))
        if path[-1] == "self":
            path = path[:-1]
        yield path, (as_[1].strip() if len(as_) > 1 else path[-1])


USE = re.compile(r"\b(pub(?:\s*\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])((?:crate|super|self)(?:::\w+)+)")


def absolute(path, module):
    if path[0] == "crate":
        return path[1:]
    if path[0] in ("super", "self"):
        at = module
        while path and path[0] in ("super", "self"):
            if path[0] == "super":
                at = at[:-1]
            path = path[1:]
        return at + path
    return None


def edges(files):
    uses = {m: [(p, n, bool(pub)) for pub, t in USE.findall(f.bare) for p, n in expand(t)] for m, f in files.items()}

    def locate(path, seen=()):
        """The module that defines what an absolute path names."""
        if path in files or path in seen:
            return path if path in files else None
        for cut in range(len(path) - 1, -1, -1):
            head = path[:cut]
            if head in files:
                break
        else:
            return None
        name = path[len(head)]
        for p, n, _ in uses[head]:
            to = absolute(p, head) if p[0] in ("crate", "super", "self") else (head + p if head + p[:1] in files else None)
            if to is None:
                continue
            if n == name:
                return locate(to + path[len(head) + 1 :], seen + (path,)) or head
            if n == "*" and to[:-1] != head:
                if re.search(r"\b(?:fn|struct|enum|trait|type|const|static|mod)\s+%s\b" % re.escape(name), files.get(to[:-1], files[head]).bare):
                    return to[:-1]
        return head

    out = {}
    for module, file in files.items():
        found = set()
        for p, n, pub in uses[module]:
            to = absolute(p, module)
            if to is None and module + p[:1] in files and not pub:
                to = module + p
            if to is None or pub and to[: len(module)] == module:
                continue  # a re-export of one's own child is no import
            found.add(to[:-1] if n == "*" else to)
        body = USE.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), file.bare)
        for p in PATH.findall(body):
            found.add(absolute(tuple(p.split("::")), module))
        for child in re.findall(r"(?<![\w:])(\w+)::\w+", body):
            if module + (child,) in files:
                found.add(module + (child,) + ("_",))
        names = {locate(p if p[-1:] != ("_",) else p[:-1]) for p in found if p is not None}
        out[module] = {n for n in names if n is not None and n != module}
    return out


def cycles(graph):
    """Tarjan's strongly connected components of more than one node."""
    index, low, stack, on, out = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on.add(v)
        for w in sorted(graph[v]):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            part = []
            while True:
                w = stack.pop()
                on.discard(w)
                part.append(w)
                if w == v:
                    break
            if len(part) > 1:
                out.append(sorted(part))

    sys.setrecursionlimit(10000)
    for v in sorted(graph):
        if v not in index:
            visit(v)
    return out


def main():
    args = sys.argv[1:]
    listing = "--list" in args
    only = args[args.index("--crate") + 1] if "--crate" in args else None
    crates = [c for c in sorted(os.listdir(ROOT)) if os.path.isdir(os.path.join(ROOT, c, "src")) and only in (None, c)]
    total = [0, 0, 0, 0]
    details = []
    print(f"{'crate':<12}{'code':>8}{'functions > 60':>16}{'files > 500':>13}{'cycles':>8}")
    for crate in crates:
        files = crate_files(crate)
        code = sum(f.lines() for f in files.values())
        long = [(n, f.path, name, at) for f in files.values() for name, at, n in f.functions() if n > LONG_FUNCTION]
        big = [(f.text.count("\n"), f.path) for f in files.values() if f.text.count("\n") > LONG_FILE]
        graph = edges(files)
        if "--registries" not in args:
            graph = {m: {t for t in ts if t[: len(m)] != m} for m, ts in graph.items()}
        rings = cycles(graph)
        print(f"{crate:<12}{code:>8}{len(long):>16}{len(big):>13}{len(rings):>8}")
        for i, n in enumerate((code, len(long), len(big), len(rings))):
            total[i] += n
        rel = lambda p: os.path.relpath(p, os.path.join(ROOT, ".."))
        details += [f"function {n:>4}  {rel(p)}:{at} {name}" for n, p, name, at in sorted(long, reverse=True)]
        details += [f"file     {n:>4}  {rel(p)}" for n, p in sorted(big, reverse=True)]
        for ring in rings:
            details.append(f"cycle    {len(ring):>4}  {crate}: " + " ".join("::".join(m) or "lib" for m in ring))
            for m in ring:
                if listing:
                    details.append("               " + ("::".join(m) or "lib") + " -> " + " ".join("::".join(t) or "lib" for t in sorted(graph[m] & set(ring))))
    print(f"{'all':<12}{total[0]:>8}{total[1]:>16}{total[2]:>13}{total[3]:>8}")
    if listing:
        print("\n".join(details))


main()
