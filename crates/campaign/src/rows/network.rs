//! Rows of a shared file system: networks x numbers of clients.

use fsdyno_axes::MAX_CLIENTS;
use fsdyno_filesystem::{Spec, shared};
use fsdyno_record::plan::{FilesystemPlan, LabPlan, NetworkPlan, VenuePlan};

use super::{Row, find_duplicate};
use crate::matrix_request::{LabPlace, MatrixError};

/// Checks --clients and --network against the requested file systems.
pub fn check(lab: &LabPlace, specs: &[(String, Spec)]) -> Result<(), MatrixError> {
    let invalid = |text: String| Err(MatrixError::Wrong(text));
    let any_shared = specs.iter().any(|(_, spec)| shared::protocol(&spec.kind).is_some());
    for (option, is_set) in
        [("--clients", !lab.clients.is_empty()), ("--network", !lab.networks.is_empty())]
    {
        if is_set && !any_shared {
            return invalid(format!(
                "{option} is for a file system that clients share, and no --fs names one; write --fs 'nfs:ext4', for \
                 example, or leave {option} out"
            ));
        }
    }
    if let Some(clients) = lab.clients.iter().find(|clients| !(1..=MAX_CLIENTS).contains(*clients))
    {
        return invalid(format!("--clients {clients} is not from 1 to {MAX_CLIENTS}"));
    }
    if let Some(clients) = find_duplicate(&lab.clients) {
        return invalid(format!("--clients names {clients} twice"));
    }
    if let Some(network) = find_duplicate(&lab.networks) {
        return invalid(format!("--network names {} twice", network.name));
    }
    Ok(())
}

/// Returns a row for each network and number of clients, if the file system is shared; otherwise only the given row.
pub fn rows(row: Row, lab: &LabPlace) -> Result<Vec<Row>, MatrixError> {
    if !row.filesystem.as_ref().is_some_and(FilesystemPlan::is_shared) {
        return Ok(vec![row]);
    }
    let networks = match lab.networks.is_empty() {
        true => vec![
            fsdyno_network::plan(fsdyno_network::DEFAULT)
                .map_err(|error| MatrixError::Wrong(error.to_string()))?,
        ],
        false => lab.networks.clone(),
    };
    let clients = if lab.clients.is_empty() { vec![1] } else { lab.clients.clone() };
    let mut rows = Vec::new();
    for network in &networks {
        rows.extend(clients.iter().map(|clients| with_clients(&row, *clients, network)));
    }
    Ok(rows)
}

fn with_clients(row: &Row, clients: u32, network: &NetworkPlan) -> Row {
    let mut row = row.clone();
    if let VenuePlan::Lab(guest) = &mut row.venue {
        let (clients, network) = (Some(clients), Some(network.clone()));
        *guest = LabPlan { clients, network, ..guest.clone() };
    }
    row
}
