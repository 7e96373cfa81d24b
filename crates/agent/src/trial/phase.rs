//! One phase of a trial: issued, synced, and measured.

use std::collections::BTreeMap;

use fsdyno_engine::{EngineCost, PhaseResult, PhaseRun, Recorder, calls, clock, run_with_acks};
use fsdyno_record::acks::PhaseEventKind;
use fsdyno_record::mailbox::Word;
use fsdyno_record::processor::ProcessorCounts;
use fsdyno_record::trial::{Device, Phase, Split};
use fsdyno_record::{Bytes, Nanos};
use fsdyno_workload::{PhaseSpec, Workload};

use super::command::Spent;
use super::{SAMPLER, Trial, elapsed, failed, failure};
use crate::account::{Account, Instruments, device_since, dirty_bytes, own_cpu};
use crate::over_time::{self, PhaseSamples};
use crate::sampler::{Sampler, dirty_and_writeback};
use crate::target::{Target, WriteCounters};
use crate::{machine, processor};

impl Trial<'_> {
    /// Runs a phase and returns its measurements.
    pub(super) fn phase(
        &mut self,
        workload: &dyn Workload,
        index: usize,
        spec: &PhaseSpec,
        engine_cost: EngineCost,
        continues: bool,
    ) -> Result<Phase, String> {
        let instruments = self.instruments();
        let before = self.start_phase();
        let Issued { done, command, opened, counts_before, write_counters, concurrent_threads } =
            self.issue(workload, index, spec, &instruments)?;
        let (outcome, counting) = (done.outcome, self.counts_only_issuer());
        let settled = self.settle(continues, counting)?;
        if settled.synced.is_some() {
            self.add_event(PhaseEventKind::Synced, index);
        }
        let counts_settled = counting.map(processor::counts);
        let spent =
            Account::close(&instruments, &opened).with_command_time(command.user, command.system);
        let (device, devices, late_ns) = before.since(self.target);
        let engine_ns = engine_cost.for_ops(outcome.ops / u64::from(concurrent_threads));
        let instrument = spent.instrument(late_ns, engine_ns);
        let phase_samples = self.samples(write_counters, device)?;
        self.ops_before += outcome.ops;
        let shares = done.done.clone();
        self.close_replay(workload, index, &done.differences)?;
        let recorder = done.into_recorder();
        let timeline = recorder.timeline();
        let end = settled.durable.or(settled.synced).unwrap_or(outcome.returned);
        let length = end.since(timeline.start().unwrap_or(outcome.started));
        self.series.extend(over_time::series(spec.name, timeline, length, phase_samples));
        self.check_calls(workload, (index, spec.name), &shares, &recorder, outcome.removals > 0)?;
        let units = workload.work_units_after(index, &shares);
        self.work_done.push(shares);
        Ok(Phase {
            name: spec.name.to_string(),
            returned_ns: outcome.returned.since(outcome.started),
            synced_ns: settled.synced.map(|at| at.since(outcome.started)),
            durable_ns: settled.durable.map(|at| at.since(outcome.started)),
            cpu_ns: spent.cpu - settled.reading_cpu,
            user_ns: spent.user,
            system_ns: spent.system,
            split: Split::Sampled,
            kernel_cpu_ns: spent.kernel,
            processor: settled.processor(counts_before, counts_settled),
            limit_ns: workload.limit(index),
            unit: workload.unit(index).map(String::from),
            think_ns: outcome.think_time,
            ops: recorder.ops(),
            books: units.into_iter().map(|(name, n)| (name.to_string(), n)).collect(),
            bytes_written: outcome.bytes_written,
            bytes_read: outcome.bytes_read,
            device,
            devices,
            dirty_bytes: settled.dirty,
            space_used: self.space_used().map_err(failed("statfs"))?,
            instrument,
        })
    }

    /// Starts a phase of the target and returns its counters at the start.
    fn start_phase(&mut self) -> Counters {
        let before = Counters::read(self.target);
        self.target.start_phase();
        before
    }

    /// Returns the processes of the instrument, both those of the target and those of this trial.
    fn instruments(&self) -> Instruments {
        let sampler = self.sampler.as_ref().map(Sampler::pid);
        Instruments { sampler, ..self.target.instruments() }
    }

    /// Issues the calls of a phase, or runs its command.
    fn issue(
        &mut self,
        workload: &dyn Workload,
        index: usize,
        spec: &PhaseSpec,
        instruments: &Instruments,
    ) -> Result<Issued, String> {
        let (mailbox, ops_before) = (self.mailbox, self.ops_before);
        let write_counters = self.target.write_counters();
        let sampler = self.sampler.as_mut().filter(|_| write_counters.is_some());
        if let (Some(sampler), Some(counters)) = (sampler, &write_counters) {
            sampler.ready(&counters.files).map_err(failed(SAMPLER))?;
        }
        let sampler = self.sampler.as_ref().filter(|_| write_counters.is_some());
        let plan = &self.job.plan;
        let roots = self.target.roots();
        let phase_run = PhaseRun {
            work: workload,
            phase: index,
            threads: spec.threads,
            requested: plan.all_threads(),
            issuer: plan.issuer,
            root: self.target.root(),
            roots: &roots,
            device: self.device.as_ref().map(|(device, _)| device.as_c_str()),
            contents: &self.contents,
            slots: self.slots.as_ref(),
            process_share: None,
        };
        let concurrent_threads = machine::concurrent_threads(phase_run.threads());
        let counting = self.counts_only_issuer();
        let (mut counts_before, mut account_before) = (None, None);
        self.add_event(PhaseEventKind::Begin, index);
        self.mark(workload, "replay-begins");
        let mut done = run_with_acks(
            &phase_run,
            self.acks.as_ref(),
            &mut || {
                account_before = Some(Account::open(instruments));
                counts_before = counting.map(processor::counts);
                if let Some(sampler) = sampler {
                    sampler.begin(clock::now());
                }
            },
            &|done| mailbox.set(Word::OpsDone, ops_before + done),
        )
        .map_err(|error| failure(spec.name, &error))?;
        self.mark(workload, "replay-ends");
        let command = self.run_command(workload, &mut done.outcome)?;
        self.add_event(PhaseEventKind::Returned, index);
        let opened = account_before.unwrap_or_default();
        Ok(Issued { done, command, opened, counts_before, write_counters, concurrent_threads })
    }

    /// Ends the sampling of a phase, if there is a sampler.
    fn samples(
        &mut self,
        write_counters: Option<WriteCounters>,
        device: Option<Device>,
    ) -> Result<Option<PhaseSamples>, String> {
        Ok(match (&mut self.sampler, write_counters) {
            (Some(sampler), Some(counters)) => Some(PhaseSamples {
                samples: sampler.end().map_err(failed(SAMPLER))?,
                unwritten: dirty_and_writeback(),
                written: device
                    .filter(|_| counters.has_device)
                    .map(|device| device.bytes_written.0),
            }),
            _ => None,
        })
    }

    /// Logs the time of an event if the trial has a log.
    fn add_event(&self, kind: PhaseEventKind, phase: usize) {
        if let Some(acks) = &self.acks {
            acks.add_event(kind, phase, clock::now());
        }
    }

    /// Reads the size of dirty pages, syncs the file system and empties the device's own cache, unless the next phase
    /// follows back to back. Reading the size takes time, which is subtracted from the later times.
    fn settle(&mut self, continues: bool, counting: Option<bool>) -> Result<Settled, String> {
        let counts_returned = counting.map(processor::counts);
        let cpu_before_reading = own_cpu();
        let (dirty, reading) = elapsed(dirty_bytes);
        let reading_cpu = own_cpu() - cpu_before_reading;
        let counts_read = counting.map(processor::counts);
        let (mut synced, mut durable) = (None, None);
        if !continues {
            self.target.sync().map_err(failed("syncfs"))?;
            synced = Some(clock::now() - reading);
            let flushed = self.target.flush_device().map_err(failed("flush the device"))?;
            let at = clock::now() - reading;
            durable = flushed.then_some(at);
        }
        Ok(Settled { synced, durable, dirty, reading_cpu, counts_returned, counts_read })
    }

    /// Compares the calls that were made with those that the workload requires, if calls are made.
    fn check_calls(
        &self,
        workload: &dyn Workload,
        (index, name): (usize, &str),
        shares: &[u64],
        recorder: &Recorder,
        removals: bool,
    ) -> Result<(), String> {
        if !self.makes_calls() {
            return Ok(());
        }
        let expected = workload.counts_after(index, shares);
        calls::compare(&recorder.counts(), &expected, removals)
            .map_err(|problem| format!("phase {name}: {problem}"))
    }
}

/// A phase whose calls have returned.
struct Issued {
    done: PhaseResult,
    /// CPU time of its command.
    command: Spent,
    /// The account at the start of the phase.
    opened: Account,
    counts_before: Option<ProcessorCounts>,
    write_counters: Option<WriteCounters>,
    /// The number of threads that can run at the same time.
    concurrent_threads: u32,
}

/// The state of the file system after a phase, and the times at which it was reached.
struct Settled {
    /// The time at which the file system was synced.
    synced: Option<Nanos>,
    /// The time at which the device's own cache was empty, if that can be shown.
    durable: Option<Nanos>,
    /// Size of dirty pages when the last call returned.
    dirty: Option<Bytes>,
    /// CPU time spent on reading the size of dirty pages.
    reading_cpu: Nanos,
    counts_returned: Option<ProcessorCounts>,
    counts_read: Option<ProcessorCounts>,
}

impl Settled {
    /// Returns the events of the processor, without those from reading the size of dirty pages.
    fn processor(
        &self,
        before: Option<ProcessorCounts>,
        after: Option<ProcessorCounts>,
    ) -> Option<ProcessorCounts> {
        let issued = processor::counts_between(before, self.counts_returned.clone())?;
        let settled = processor::counts_between(self.counts_read.clone(), after)?;
        Some(processor::sum(&issued, &settled))
    }
}

/// The counters of a target's devices.
struct Counters {
    device: Option<Device>,
    devices: BTreeMap<String, Device>,
    late: Nanos,
}

impl Counters {
    /// Reads the current counters.
    fn read(target: &dyn Target) -> Counters {
        let (device, devices) = (target.device(), target.devices());
        Counters { device, devices, late: target.lateness() }
    }

    /// Returns the counts since these counters were read: for the device, for each of several devices, and the
    /// lateness of the servers.
    fn since(&self, target: &dyn Target) -> (Option<Device>, BTreeMap<String, Device>, Nanos) {
        let (device, devices) = (target.device(), target.devices());
        let device = device.zip(self.device).map(|(now, earlier)| device_since(&now, &earlier));
        let since = |(name, now): (String, Device)| {
            let since = device_since(&now, self.devices.get(&name)?);
            Some((name, since))
        };
        let devices = devices.into_iter().filter_map(since).collect();
        (device, devices, target.lateness() - self.late)
    }
}
