//! `fsdyno show network`: describes a network's links, with their sources, and its file.

use fsdyno_network::Network;
use fsdyno_record::Nanos;
use fsdyno_report::table::Prose;
use serde_json::json;

use super::{Shown, origin};

/// Describes the network with this name or in this file, as text and as JSON.
///
/// # Errors
/// An unknown name, or an invalid file.
pub fn network(name: &str, prose: Prose) -> Shown {
    let network = fsdyno_network::find(name)?;
    let file = fsdyno_network::text(name)?;
    let round_trip = fsdyno_network::plan(name)?.round_trip();
    let value = json!({
        "name": network.name, "about": network.about, "bits_per_second": network.bits_per_second,
        "delay_ns": network.delay_ns, "limit": network.limit, "round_trip_ns": round_trip,
        "source": network.source, "file": file,
    });
    Ok((text(&network, round_trip, &file, prose), value))
}

fn text(network: &Network, round_trip: Nanos, file: &str, prose: Prose) -> String {
    let mut text = format!("{}: {}\n\n", network.name, network.about);
    let rate = network.bits_per_second / 1_000_000;
    text.push_str(&prose.columns(&[
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
    text + &origin(prose, &network.source, "--network", file)
}
