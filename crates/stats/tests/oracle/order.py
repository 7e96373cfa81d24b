"""The order that src/plan.rs must give, from the published algorithms alone (no dependency).

SplitMix64 (Vigna's splitmix64.c), FNV-1a, Lemire's multiplication, Fisher and Yates from the end.
"""
M = 2**64 - 1


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & M
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & M
    return z ^ (z >> 31)


def stream(seed, name):
    fnv = 0xCBF29CE484222325
    for byte in name.encode():
        fnv = (fnv ^ byte) * 0x100000001B3 & M
    state = mix(fnv) ^ mix(seed + 0x9E3779B97F4A7C15 & M)
    while True:
        state = state + 0x9E3779B97F4A7C15 & M
        yield mix(state)


def order(conditions, blocks, seed):
    for block in range(blocks):
        draws = stream(seed, f"order of round {block}")
        cells = list(range(conditions))
        for last in range(conditions - 1, 0, -1):
            at = next(draws) * (last + 1) >> 64
            cells[last], cells[at] = cells[at], cells[last]
        yield cells


print(list(order(5, 3, 42)))
