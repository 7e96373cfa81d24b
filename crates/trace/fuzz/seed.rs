//! Seeds for mutated traces: the beginnings of example traces.

/// Returns the beginnings of the first frame of the tree and of the first frame of events, in the form of `framed`.
fn seed(trace: &[u8]) -> Vec<u8> {
    let word =
        |at: usize| u32::from_le_bytes(trace[at..at + 4].try_into().expect("a trace")) as usize;
    let (mut at, mut parts) = (12, [Vec::new(), Vec::new()]);
    while at < trace.len() {
        let (kind, packed, length) = (trace[at], word(at + 1), word(at + 5));
        let stored = &trace[at + 13..at + 13 + packed];
        if kind == 2 || kind == 3 {
            let bytes = match packed == length {
                true => stored.to_vec(),
                false => lz4_flex::block::decompress(stored, length).expect("a trace"),
            };
            let part = &mut parts[usize::from(kind) - 2];
            if part.is_empty() {
                *part = bytes[..bytes.len().min(3000)].to_vec();
            }
        }
        at += 13 + packed;
    }
    let [tree, events] = parts;
    assert!(!tree.is_empty() && !events.is_empty());
    [&(tree.len() as u16).to_le_bytes()[..], &tree, &events].concat()
}

/// Returns the beginnings of three example traces.
pub fn seeds() -> [Vec<u8>; 3] {
    ["sqlite-wal", "rsync", "git-clone"].map(|name| {
        let at = format!("{}/../../examples/traces/{name}.trace", env!("CARGO_MANIFEST_DIR"));
        seed(&std::fs::read(at).expect("an example"))
    })
}
