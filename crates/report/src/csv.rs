//! CSV: one line per trial, phase and op, for a spreadsheet or a script.

use fsdyno_record::trial::{Outcome, Phase};
use fsdyno_record::{Nanos, Trial};

use crate::device;
use crate::part::Part;

pub const HEAD: &str = "trial_id,lab_id,seed,outcome,reason,workload,parameters,threads,issuer,label,filesystem,age,disk,kernel,phase,\
    returned_ns,synced_ns,durable_ns,cpu_ns,kernel_cpu_ns,bytes_written,bytes_read,books,device_reads,\
    device_writes,device_flushes,device_bytes_read,device_bytes_written,device_seeks,space_used,\
    server_cpu_ns,driver_cpu_ns,late_ns,engine_ns,sampler_cpu_ns,\
    op,count,total_ns,p50_ns,p90_ns,p99_ns,p999_ns,max_ns,\
    repeats_wanted,repeats_at_most,started,user_ns,system_ns,run,as,period,cacheable,unsafe";

/// The records as CSV (RFC 4180, but lines end in a bare newline). Numbers are the record's own and not rounded;
/// an unknown value is empty. A trial without phases has one line. For a study each line names its run and its
/// conditions.
pub fn csv(parts: &[Part<'_>]) -> String {
    let mut out = String::from(HEAD);
    out.push('\n');
    for (part, trial) in parts.iter().flat_map(|part| part.trials.iter().map(move |t| (part, t))) {
        let start = trial_fields(trial);
        let wanted = trial.repeats.and_then(|rule| rule.wanted);
        let [wanted, at_most] = [wanted, trial.repeats.map(|rule| rule.at_most)]
            .map(|n| n.map(|n| n.to_string()).unwrap_or_default());
        // Where each run is a trial of its own, this distinguishes it from others of its plan and seed.
        let rule = [wanted, at_most, trial.identity().started.to_string()];
        let request = request_fields(part, trial);
        if trial.measured.phases.is_empty() {
            let cpu = [String::new(), String::new()];
            let known = start.len() + rule.len() + cpu.len() + request.len();
            let gap = vec![String::new(); COLUMNS - known];
            push_line(&mut out, start.iter().chain(&gap).chain(&rule).chain(&cpu).chain(&request));
        }
        for phase in &trial.measured.phases {
            let middle = phase_fields(trial, phase);
            let cpu = [phase.user_ns, phase.system_ns].map(|ns| ns.0.to_string());
            for (kind, stats) in &phase.ops {
                let times =
                    [stats.total_ns, stats.p50_ns, stats.p90_ns, stats.p99_ns, stats.p999_ns];
                let mut end = vec![kind.name().to_string(), stats.count.to_string()];
                end.extend(times.iter().chain([&stats.max_ns]).map(|ns| ns.0.to_string()));
                let phase = start.iter().chain(&middle).chain(&end);
                push_line(&mut out, phase.chain(&rule).chain(&cpu).chain(&request));
            }
        }
    }
    out
}

const COLUMNS: usize = 53;

/// The run of a study, its conditions, the period of its settings, the memory for caches in bytes (empty if that is
/// all memory), and the options that give up durability.
fn request_fields(part: &Part<'_>, trial: &Trial) -> [String; 5] {
    let period = trial.plan.filesystem.as_ref().and_then(|it| it.period.clone());
    let cacheable = trial.plan.lab().and_then(|lab| lab.cacheable);
    [
        part.run.into(),
        part.variant.into(),
        period.unwrap_or_default(),
        cacheable.map(|size| size.0.to_string()).unwrap_or_default(),
        device::risks(trial).join("; "),
    ]
}

fn trial_fields(trial: &Trial) -> Vec<String> {
    let plan = &trial.plan;
    let params: Vec<String> =
        plan.workload.params.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let outcome = match trial.outcome {
        Outcome::Ok => "ok",
        Outcome::Failed => "failed",
        Outcome::Skipped => "skipped",
    };
    vec![
        trial.trial_id.clone(),
        trial.lab_id.clone().unwrap_or_default(),
        trial.seed.to_string(),
        outcome.into(),
        trial.reason.clone().unwrap_or_default(),
        plan.workload.name.clone(),
        params.join(" "),
        plan.threads.to_string(),
        plan.issuer.to_string(),
        plan.label.clone(),
        plan.filesystem.as_ref().map(|fs| fs.spec.clone()).unwrap_or_default(),
        plan.age().map(ToString::to_string).unwrap_or_default(),
        plan.disk_name().unwrap_or_default().into(),
        trial.conditions.kernel.split(' ').next().unwrap_or_default().into(),
    ]
}

fn phase_fields(trial: &Trial, phase: &Phase) -> Vec<String> {
    let units: Vec<String> =
        phase.books.iter().map(|(unit, n)| format!("{}={n}", unit.replace(' ', "-"))).collect();
    let time = |ns: Option<Nanos>| ns.map(|ns| ns.0.to_string()).unwrap_or_default();
    let device = |of: fn(&fsdyno_record::trial::Device) -> u64| {
        phase.device.as_ref().map(|d| of(d).to_string()).unwrap_or_default()
    };
    vec![
        phase.name.clone(),
        phase.returned_ns.0.to_string(),
        time(phase.synced_ns),
        time(phase.durable_ns),
        phase.cpu_ns.0.to_string(),
        phase.kernel_cpu_ns.values().map(|ns| ns.0).sum::<u64>().to_string(),
        phase.bytes_written.0.to_string(),
        phase.bytes_read.0.to_string(),
        units.join(" "),
        device(|d| d.reads),
        device(|d| d.writes),
        device(|d| d.flushes),
        device(|d| d.bytes_read.0),
        device(|d| d.bytes_written.0),
        phase.device.and_then(|d| d.seeks).map(|n| n.to_string()).unwrap_or_default(),
        // For a directory it would be the use of the whole file system.
        trial.plan.filesystem.as_ref().map(|_| phase.space_used.0.to_string()).unwrap_or_default(),
        phase.instrument.server_cpu_ns.0.to_string(),
        phase.instrument.driver_cpu_ns.0.to_string(),
        phase.instrument.late_ns.0.to_string(),
        phase.instrument.engine_ns.0.to_string(),
        phase.instrument.sampler_cpu_ns.0.to_string(),
    ]
}

pub fn push_line<'a>(out: &mut String, fields: impl Iterator<Item = &'a String>) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            out.push(',');
        }
        if field.contains([',', '"', '\n', '\r']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(field);
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn every_trial_phase_and_op_has_a_line() {
        insta::assert_snapshot!(csv(&[Part::whole(&fixture::trials()[..1])]));
    }

    #[test]
    fn a_trial_that_failed_has_a_line_of_its_own_with_every_column() {
        let trials = fixture::with_failures();
        let failed: Vec<&Trial> = trials.iter().filter(|t| t.measured.phases.is_empty()).collect();
        assert!(!failed.is_empty());
        let text = csv(&[Part::whole(&trials)]);
        let line = text.lines().find(|line| line.contains(",skipped,")).unwrap();
        assert_eq!(line.matches(',').count(), COLUMNS - 1);
        assert_eq!(HEAD.matches(',').count(), COLUMNS - 1);
    }

    #[test]
    fn lines_of_a_study_name_their_run_and_their_conditions() {
        let mut trials = fixture::single();
        trials.truncate(2);
        trials[0].plan.filesystem.as_mut().unwrap().period = Some("2001".into());
        let fsdyno_record::plan::MediumPlan::Lab(lab) = &mut trials[0].plan.medium else {
            unreachable!()
        };
        lab.cacheable = Some(fsdyno_record::Bytes(64 << 20));
        let part = |run, variant, trials| Part { run, variant, kernel: None, trials };
        let parts = [part("curve", "then", &trials[..1]), part("curve", "today", &trials[1..])];
        let text = csv(&parts);
        let heads: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        assert_eq!(
            heads[46..],
            ["user_ns", "system_ns", "run", "as", "period", "cacheable", "unsafe"]
        );
        let phase = &trials[0].measured.phases[0];
        let times = format!(",{},{}", phase.user_ns.0, phase.system_ns.0);
        let line = |at: usize| text.lines().nth(at).unwrap();
        assert!(line(1).ends_with(&format!("{times},curve,then,2001,67108864,")), "{text}");
        assert!(text.lines().last().unwrap().ends_with(",curve,today,,,"), "{text}");
        assert!(text.lines().all(|line| line.matches(',').count() == COLUMNS - 1), "{text}");
    }

    #[test]
    fn commas_quotes_and_newlines_stay_inside_their_field() {
        let mut out = String::new();
        push_line(&mut out, ["a,b", "say \"x\"", "two\nlines", "plain"].map(String::from).iter());
        assert_eq!(out, "\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",plain\n");
    }
}
