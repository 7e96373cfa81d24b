# Prints a JSON document, one a line of input, as lines of path and value: measured.phases.0.name create.
# Strings are printed as they stand between their quotes.
function skip() { while (substr(text, at, 1) ~ /[ \t]/) at++ }
function string(   from) {
    from = ++at
    while (substr(text, at, 1) != "\"") at += substr(text, at, 1) == "\\" ? 2 : 1
    return substr(text, from, at++ - from)
}
function value(path,   c, n, key) {
    skip()
    c = substr(text, at, 1)
    if (c == "{") {
        for (at++; skip() substr(text, at, 1) != "}"; skip()) {
            if (substr(text, at, 1) == ",") { at++; skip() }
            key = string(); skip(); at++
            value(path == "" ? key : path "." key)
        }
        at++
    } else if (c == "[") {
        n = 0
        for (at++; skip() substr(text, at, 1) != "]"; skip()) {
            if (substr(text, at, 1) == ",") at++
            value(path "." n++)
        }
        at++
    } else if (c == "\"") {
        print path, string()
    } else {
        match(substr(text, at, 40), /^[-+.0-9a-zA-Z]+/)
        print path, substr(text, at, RLENGTH)
        at += RLENGTH
    }
}
{ text = $0; at = 1; value("") }
