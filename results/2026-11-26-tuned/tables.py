#!/usr/bin/env python3
"""Prints the tables of README.md from the tune.json files of this folder (MACHINE-WORK.json): tables.py [FOLDER]."""
import json
import sys
from pathlib import Path

MACHINES = ["server-2026", "laptop-2026", "cloud-2026"]
WORKS = ["mail", "sqlite", "unpack", "churn", "build"]
FILESYSTEMS = ["ext4", "xfs", "btrfs", "f2fs"]
# A change below this is shown as 0.
LEAST = 0.005

folder = Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
folder = folder if folder.is_dir() else folder.parent


def load():
    found = {}
    for machine in MACHINES:
        for work in WORKS:
            path = folder / f"{machine}-{work}.json"
            if path.exists():
                for tuned in json.loads(path.read_text())["filesystems"]:
                    found[machine, work, tuned["filesystem"].split()[0]] = tuned
    return found


def percent(change, noise):
    """The change in percent; in parentheses if it is within twice the noise between seeds."""
    text = "0" if abs(change) < LEAST else f"{100 * change:+.1f} %"
    return f"({text})" if LEAST <= abs(change) < 2 * noise else text


def recommendations(found):
    for machine in dict.fromkeys(key[0] for key in found):
        print(f"### {machine}\n")
        print("| work | file system | mkfs | mount options | sysctl, scheduler | time of the default's | power cuts with losses |")
        print("|---|---|---|---|---|---:|---:|")
        for work in WORKS:
            for filesystem in FILESYSTEMS:
                tuned = found.get((machine, work, filesystem))
                if tuned is None:
                    continue
                words = tuned["recommended"]
                options = words["fstab"].split()
                options = options[3] if len(options) > 3 else ""
                rest = ", ".join(words["sysctls"] + ([words["scheduler"]] if words.get("scheduler") else []))
                if tuned["is_default"]:
                    print(f"| {work} | {filesystem} | the defaults | | | 1 | {cuts(tuned)} |")
                    continue
                mkfs = " ".join(word for word in words["mkfs"].split() if word not in ("DEVICE", "/dev/DEVICE"))
                ratio = tuned.get("confirmed")
                shown = f"{ratio['ratio']:.3f}" if ratio else "not confirmed"
                print(f"| {work} | {filesystem} | `{mkfs}` | `{options}` | {rest} | {shown} | {cuts(tuned)} |")
        print()


def cuts(tuned):
    """Power cuts after which acknowledged work was missing, of the default or of the recommended options."""
    cut = [point for point in tuned["front"] if point["cuts"]]
    point = next((it for it in cut if (it["words"] == "default") == tuned["is_default"]), None)
    return f"{point['losses']} of {point['cuts']}" if point else "-"


def options_alone(found):
    for filesystem in FILESYSTEMS:
        worth = {}
        for (machine, work, kind), tuned in found.items():
            if kind != filesystem:
                continue
            for effect in tuned["effects"]:
                if effect.get("alone") is not None:
                    row = worth.setdefault((effect["what"], effect["sets"]), {})
                    row[machine, work] = (effect["alone"], tuned["noise"])
        if not worth:
            continue
        print(f"### {filesystem}\n")
        works = list(dict.fromkeys(key[1] for key in found))
        machines = list(dict.fromkeys(key[0] for key in found))
        print("| option | " + " | ".join(works) + " |")
        print("|---|" + "---:|" * len(works))
        def extent(row):
            return -max((abs(change) for change, noise in row[1].values() if abs(change) >= 2 * noise), default=0)
        for (what, sets), changes in sorted(worth.items(), key=extent):
            cells = []
            for work in works:
                each = [changes.get((machine, work)) for machine in machines]
                cells.append(" / ".join("-" if change is None else percent(*change) for change in each))
            print(f"| `{what}` | " + " | ".join(cells) + " |")
        print()


if __name__ == "__main__":
    all_found = load()
    if not all_found:
        sys.exit(f"no MACHINE-WORK.json in {folder}")
    print("## Recommended\n")
    recommendations(all_found)
    print("## Options alone\n")
    print(f"{', '.join(dict.fromkeys(key[0] for key in all_found))}; changes below {100 * LEAST:.1f} % are 0, those within "
          "twice the noise between seeds are in parentheses.\n")
    options_alone(all_found)
