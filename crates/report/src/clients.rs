//! File systems shared over a modelled network: the rate of each phase by the number of clients, the knee of that
//! curve, and the split of the guest's single processor between clients and server.

use std::collections::BTreeMap;

use fsdyno_record::trial::Phase;
use fsdyno_record::{Nanos, Trial};

use crate::error::ReportError;
use crate::number::{format_scaled, percent, sanitize};
use crate::scaling::{self, Scaling, scaling};
use crate::table::{Block, Column, Document, Legend, Output, Rows, Table};

/// The clients of a result.
pub struct Clients<'a> {
    /// The trials.
    pub trials: &'a [Trial],
}

/// The side that a kernel thread works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Clients,
    Server,
    Common,
}

/// Kernel threads that work for both sides, or for the network between them: pooled workers (kworker) send and receive
/// for clients and write back for the server, and do all the work of the SMB server; the other threads serve
/// interrupts.
const COMMON_THREADS: &[&str] = &["kworker", "ksoftirqd", "rcu_preempt", "rcu_sched", "migration"];

/// Kernel threads of clients: the SMB client's receivers.
const CLIENT_THREADS: &[&str] = &["cifsd"];

impl Side {
    fn of(thread: &str) -> Side {
        match thread {
            name if COMMON_THREADS.contains(&name) => Side::Common,
            name if CLIENT_THREADS.contains(&name) => Side::Clients,
            _ => Side::Server,
        }
    }
}

/// A phase of a trial: one point of a curve over the number of clients.
struct Point<'a> {
    trial: &'a Trial,
    phase: &'a Phase,
    clients: u32,
    network: &'a str,
    rate: f64,
    scaling: Scaling,
}

/// The key of a curve: the workload with its parameters and threads, the row, the network, the seed and the phase.
type Curve<'a> = ((&'a str, &'a BTreeMap<String, String>, u32), &'a str, &'a str, u64, &'a str);

impl Point<'_> {
    /// The key of the curve that this point belongs to.
    fn curve(&self) -> Curve<'_> {
        let plan = &self.trial.plan;
        let work = (plan.workload.name.as_str(), &plan.workload.params, plan.threads);
        (work, &plan.label, self.network, self.trial.seed, &self.phase.name)
    }

    /// The time until durable; if that is unknown, until synced; if that is unknown too, until returned.
    fn duration(&self) -> Nanos {
        self.phase.durable_ns.or(self.phase.synced_ns).unwrap_or(self.phase.returned_ns)
    }

    fn kernel_cpu(&self, side: Side) -> Nanos {
        let threads = self.phase.kernel_cpu_ns.iter();
        let threads = threads.filter(|(name, _)| Side::of(name) == side);
        threads.fold(Nanos(0), |sum, (_, time)| sum + *time)
    }

    fn clients_cpu(&self) -> Nanos {
        self.phase.cpu_ns + self.kernel_cpu(Side::Clients)
    }

    fn instrument(&self) -> Nanos {
        let instrument = &self.phase.instrument;
        instrument.server_cpu_ns + instrument.driver_cpu_ns + instrument.sampler_cpu_ns
    }

    fn idle(&self) -> Nanos {
        let busy =
            self.clients_cpu() + self.kernel_cpu(Side::Server) + self.kernel_cpu(Side::Common);
        self.duration() - (busy + self.instrument())
    }

    fn share(&self, time: Nanos) -> String {
        match self.duration().is_zero() {
            true => String::new(),
            false => percent(time.0 as f64 / self.duration().0 as f64),
        }
    }
}

/// Calls per second of the most frequent kind of call in a phase.
fn rate(phase: &Phase) -> f64 {
    let max_count = phase.ops.values().map(|stats| stats.count).max().unwrap_or(0);
    match phase.returned_ns.is_zero() {
        true => 0.0,
        false => max_count as f64 * 1e9 / phase.returned_ns.0 as f64,
    }
}

/// Returns the points of all curves, in the order of the trials and their phases.
fn points(trials: &[Trial]) -> Vec<Point<'_>> {
    let mut points: Vec<Point<'_>> = Vec::new();
    for trial in trials {
        let Some(lab) = trial.plan.lab() else { continue };
        let (Some(clients), Some(network)) = (lab.clients, &lab.network) else { continue };
        for phase in &trial.measured.phases {
            let (network, rate) = (network.name.as_str(), rate(phase));
            let scaling = Scaling::default();
            points.push(Point { trial, phase, clients, network, rate, scaling });
        }
    }
    let rates: Vec<_> =
        points.iter().map(|point| (point.curve(), point.clients, (point.rate, 0.0))).collect();
    let scalings = scaling(&rates);
    for (point, scaling) in points.iter_mut().zip(scalings) {
        point.scaling = scaling;
    }
    points
}

fn trial_name(trial: &Trial) -> String {
    sanitize(&format!("{} {}, seed {}", trial.plan.workload.name, trial.plan.label, trial.seed))
}

fn table(trials: &[Trial]) -> Option<Table> {
    let rows = points(trials);
    if rows.is_empty() {
        return None;
    }
    let columns: Vec<Column<'_, Point<'_>>> = vec![
        Column::words("trial", |point: &Point<'_>| trial_name(point.trial)),
        Column::words("network", |point: &Point<'_>| sanitize(point.network)),
        Column::words("phase", |point: &Point<'_>| sanitize(&point.phase.name)),
        Column::number("clients", |point: &Point<'_>| point.clients.to_string()),
        Column::number("ops/s", |point: &Point<'_>| format_scaled(point.rate))
            .means("calls per second of the phase's most frequent kind, by all clients, until the last call returned"),
        Column::number("scaling", |point: &Point<'_>| point.scaling.ratio.map(format_scaled).unwrap_or_default())
            .means("the rate divided by the rate with the fewest clients"),
        Column::words("knee", |point: &Point<'_>| point.scaling.mark().to_string()).means(scaling::KNEE),
        Column::number("clients' CPU", |point: &Point<'_>| point.share(point.clients_cpu()))
            .means("part of the time until durable in which the guest's one processor ran the threads that issue operations, with their part of the client's code and of interrupts"),
        Column::number("server's CPU", |point: &Point<'_>| point.share(point.kernel_cpu(Side::Server)))
            .means("the same for threads of the server (nfsd, ksmbd) and of its file system"),
        Column::number("common CPU", |point: &Point<'_>| point.share(point.kernel_cpu(Side::Common)))
            .means("the same for pooled kernel workers (RPC of both sides, write-back, the work of an SMB server) and for interrupts"),
        Column::number("instrument", |point: &Point<'_>| point.share(point.instrument()))
            .means("the same for fsdyno itself: mostly the modelled disk's server"),
        Column::number("idle", |point: &Point<'_>| point.share(point.idle()))
            .means("the same without any work: all threads wait for the network or the disk"),
    ];
    let mut table = Table::of(columns, &rows);
    table.title = "Clients".into();
    Some(table)
}

/// The caveat that is printed below the table.
const ONE_PROCESSOR: &str = "Server, clients and network share the one processor of a guest, so the rate with many clients is \
                             limited by the work of all of them; on real hosts only the server's part is shared.";

impl Output for Clients<'_> {
    fn document(&self) -> Document {
        let Some(table) = table(self.trials) else {
            let message = "No trial of this result has clients of a shared file system (fsdyno run --fs nfs:ext4 --clients 4).";
            return Document(vec![Block::Paragraph(message.into())]);
        };
        Document(vec![
            Block::Table(table),
            Block::Paragraph(ONE_PROCESSOR.into()),
            Block::Legend(Legend::default()),
        ])
    }

    /// One row for each trial and phase.
    fn rows(&self, out: &mut dyn Rows) {
        let time = |head: &str, value: fn(&Point<'_>) -> Nanos| {
            Column::number(head, move |point: &Point<'_>| value(point).0.to_string())
        };
        let columns: Vec<Column<'_, Point<'_>>> = vec![
            Column::words("trial_id", |point: &Point<'_>| point.trial.trial_id.clone()),
            Column::words("workload", |point: &Point<'_>| point.trial.plan.workload.name.clone()),
            Column::words("label", |point: &Point<'_>| point.trial.plan.label.clone()),
            Column::number("seed", |point: &Point<'_>| point.trial.seed.to_string()),
            Column::words("network", |point: &Point<'_>| point.network.to_string()),
            Column::words("phase", |point: &Point<'_>| point.phase.name.clone()),
            Column::number("clients", |point: &Point<'_>| point.clients.to_string()),
            Column::number("ops_per_s", |point: &Point<'_>| point.rate.to_string()),
            Column::words("knee", |point: &Point<'_>| point.scaling.knee.to_string()),
            time("returned_ns", |point| point.phase.returned_ns),
            time("length_ns", |point| point.duration()),
            time("clients_cpu_ns", |point| point.clients_cpu()),
            time("server_cpu_ns", |point| point.kernel_cpu(Side::Server)),
            time("common_cpu_ns", |point| point.kernel_cpu(Side::Common)),
            time("instrument_cpu_ns", |point| point.instrument()),
            time("idle_ns", |point| point.idle()),
        ];
        out.table(&columns, points(self.trials));
    }

    fn json(&self) -> Result<String, ReportError> {
        let all: Vec<serde_json::Value> = points(self.trials)
            .iter()
            .map(|point| {
                serde_json::json!({
                    "trial_id": point.trial.trial_id, "label": point.trial.plan.label, "seed": point.trial.seed,
                    "network": point.network, "phase": point.phase.name, "clients": point.clients,
                    "ops_per_s": point.rate, "knee": point.scaling.knee, "length_ns": point.duration(),
                    "clients_cpu_ns": point.clients_cpu(), "server_cpu_ns": point.kernel_cpu(Side::Server),
                    "common_cpu_ns": point.kernel_cpu(Side::Common), "instrument_cpu_ns": point.instrument(),
                    "idle_ns": point.idle(),
                })
            })
            .collect();
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_record::plan::NetworkPlan;

    use super::*;
    use crate::fixture;
    use crate::table::{Format, Style};

    /// A trial with this number of clients, whose only phase returned after this time in ns.
    fn trial(clients: u32, returned: u64) -> Trial {
        let mut trial = fixture::trials().remove(0);
        let lab = trial.plan.lab_mut().unwrap();
        lab.clients = Some(clients);
        lab.network = Some(NetworkPlan { name: "lan-10g".into(), ..NetworkPlan::default() });
        trial.measured.phases.truncate(1);
        let phase = &mut trial.measured.phases[0];
        phase.returned_ns = Nanos(returned);
        (phase.synced_ns, phase.durable_ns) = (None, Some(Nanos(1_000_000_000)));
        phase.cpu_ns = Nanos(200_000_000);
        let named = [("nfsd", 300_000_000), ("jbd2", 50_000_000), ("kworker", 100_000_000)];
        phase.kernel_cpu_ns = named.map(|(name, ns)| (name.to_string(), Nanos(ns))).into();
        phase.instrument = fsdyno_record::trial::Instrument::default();
        trial
    }

    #[test]
    fn the_processors_time_is_split_between_the_sides_and_the_rest_is_idle() {
        let trials = [trial(2, 900_000_000)];
        let one = points(&trials).remove(0);
        assert_eq!(
            [one.clients_cpu(), one.kernel_cpu(Side::Server), one.kernel_cpu(Side::Common)],
            [200_000_000, 350_000_000, 100_000_000].map(Nanos)
        );
        assert_eq!((one.idle(), one.scaling.ratio), (Nanos(350_000_000), None));
        let mut trials = trials;
        let named = &mut trials[0].measured.phases[0].kernel_cpu_ns;
        named.extend([("ksmbd", 1), ("cifsd", 20)].map(|(name, ns)| (name.into(), Nanos(ns))));
        let smb = points(&trials).remove(0);
        assert_eq!(smb.clients_cpu(), Nanos(200_000_020));
        assert_eq!(smb.kernel_cpu(Side::Server), Nanos(350_000_001));
        assert_eq!(smb.idle(), Nanos(349_999_979));
    }

    #[test]
    fn the_knee_is_where_further_clients_add_little() {
        let trials = [
            trial(4, 299_000_000),
            trial(1, 900_000_000),
            trial(2, 450_000_000),
            trial(8, 290_000_000),
        ];
        let all = points(&trials);
        let knees: Vec<u32> =
            all.iter().filter(|point| point.scaling.knee).map(|point| point.clients).collect();
        // From 2 to 4 clients, each new client adds half of the previous average; from 4 to 8, next to nothing.
        assert_eq!(knees, [4]);
        let scaling: Vec<String> =
            all.iter().map(|point| format!("{:.2}", point.scaling.ratio.unwrap())).collect();
        assert_eq!(scaling, ["3.01", "1.00", "2.00", "3.10"]);
    }

    #[test]
    fn every_format_has_the_curve_and_a_result_without_clients_is_reported() {
        let trials = [trial(1, 900_000_000), trial(2, 450_000_000)];
        let text = Format::Text.write(&Clients { trials: &trials }, Style::default()).unwrap();
        for part in ["Clients", "server's CPU", "one processor", "35"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let csv = Format::Csv.write(&Clients { trials: &trials }, Style::default()).unwrap();
        assert_eq!(csv.lines().count(), 3, "{csv}");
        let empty = Format::Text.write(&Clients { trials: &[] }, Style::default()).unwrap();
        assert!(empty.contains("--clients"), "{empty}");
    }
}
