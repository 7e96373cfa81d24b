//! `fsdyno show network`: the links of a network, with their sources, and its file.

use fsdyno_network::Network;
use fsdyno_record::Nanos;
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::output;

/// The network of this name or file, as text and as JSON.
pub fn network(name: &str) -> Result<(String, Value), Failure> {
    let wrong = |error: fsdyno_network::NetworkError| Failure::wrong(error.to_string());
    let network = fsdyno_network::find(name).map_err(wrong)?;
    let file = fsdyno_network::text(name).map_err(wrong)?;
    let round_trip = fsdyno_network::plan(name).map_err(wrong)?.round_trip();
    let value = json!({
        "name": network.name, "about": network.about, "bits_per_second": network.bits_per_second,
        "delay_ns": network.delay_ns, "limit": network.limit, "round_trip_ns": round_trip,
        "source": network.source, "file": file,
    });
    Ok((text(&network, round_trip, &file), value))
}

fn text(network: &Network, round_trip: Nanos, file: &str) -> String {
    let mut text = format!("{}: {}\n\n", network.name, network.about);
    let rate = network.bits_per_second / 1_000_000;
    text.push_str(&output::columns(&[
        vec!["rate of a link".into(), format!("{rate} Mbit/s in either direction")],
        vec!["delay of a link".into(), network.delay_ns.to_string()],
        vec!["round trip".into(), format!("{round_trip}: client, switch, server and back")],
        vec!["queue of a link".into(), format!("{} packets", network.limit)],
        vec![
            "run".into(),
            format!("fsdyno run dirops --fs nfs:ext4 --clients 4 --network {}", network.name),
        ],
    ]));
    text.push_str("\nsources:\n");
    for source in &network.source {
        text.push_str(&output::indented(&format!("{}: {}", source.what, source.from), 2));
    }
    text.push_str("\nits file (copy it, change it, and give its path to --network):\n\n");
    text.push_str(file);
    text
}
