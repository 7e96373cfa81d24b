//! One phase of a trial: issued, synced, and measured.

use fsdyno_engine::{EngineCost, PhaseRun, calls, clock, run_with_acks};
use fsdyno_record::Nanos;
use fsdyno_record::acks::PhaseEventKind;
use fsdyno_record::mailbox::Word;
use fsdyno_record::trial::{Instrument, Phase, Split};
use fsdyno_workload::{PhaseSpec, Workload};

use super::{SAMPLER, Trial, elapsed, failed, failure};
use crate::account::{Account, device_since, dirty_bytes, own_cpu};
use crate::over_time::{self, PhaseSamples};
use crate::sampler::{Sampler, dirty_and_writeback};
use crate::{machine, processor};

impl Trial<'_> {
    /// Runs a phase and returns what was measured.
    pub(super) fn phase(
        &mut self,
        workload: &dyn Workload,
        index: usize,
        spec: &PhaseSpec,
        engine_cost: EngineCost,
        runs_on: bool,
    ) -> Result<Phase, String> {
        let mut instruments = self.target.instruments();
        instruments.sampler = self.sampler.as_ref().map(Sampler::pid);
        let (mailbox, ops_before) = (self.mailbox, self.ops_before);
        let (device_before, devices_before) = (self.target.device(), self.target.devices());
        let late_before = self.target.late();
        self.target.start_phase();
        let written_at = self.target.written_at();
        let sampler = self.sampler.as_mut().filter(|_| written_at.is_some());
        if let (Some(sampler), Some(at)) = (sampler, &written_at) {
            sampler.ready(&at.files).map_err(failed(SAMPLER))?;
        }
        let sampler = self.sampler.as_ref().filter(|_| written_at.is_some());
        let plan = &self.job.plan;
        let phase_run = PhaseRun {
            work: workload,
            phase: index,
            threads: spec.threads,
            requested: plan.threads,
            issuer: plan.issuer,
            root: self.target.root(),
            device: self.device.as_ref().map(|(device, _)| device.as_c_str()),
            contents: &self.contents,
            slots: self.slots.as_ref(),
            among: None,
        };
        let together = machine::at_once(phase_run.threads());
        let counting = self.processor();
        let (mut counts_before, mut account_before) = (None, None);
        self.add_event(PhaseEventKind::Begin, index);
        let mut done = run_with_acks(
            &phase_run,
            self.acks.as_ref(),
            &mut || {
                account_before = Some(Account::open(&instruments));
                counts_before = counting.map(processor::counts);
                if let Some(sampler) = sampler {
                    sampler.begin(clock::now());
                }
            },
            &|done| mailbox.set(Word::OpsDone, ops_before + done),
        )
        .map_err(|error| failure(spec.name, &error))?;
        let command = self.run_command(workload, &mut done.outcome)?;
        self.add_event(PhaseEventKind::Returned, index);
        let (outcome, account_before) = (done.outcome, account_before.unwrap_or_default());
        // Reading the size of dirty pages takes time of its own, which is subtracted from what follows.
        let counts_returned = counting.map(processor::counts);
        let cpu_before_reading = own_cpu();
        let (dirty, reading) = elapsed(dirty_bytes);
        let reading_cpu = own_cpu() - cpu_before_reading;
        let counts_read = counting.map(processor::counts);
        let (synced, durable) = match runs_on {
            true => (None, None),
            false => self.settle(reading)?,
        };
        if synced.is_some() {
            self.add_event(PhaseEventKind::Synced, index);
        }
        let counts_settled = counting.map(processor::counts);
        let mut spent = Account::close(&instruments, &account_before);
        spent.add(command.user, command.system);
        let (device, devices) = (self.target.device(), self.target.devices());
        let device = device.zip(device_before).map(|(now, then)| device_since(&now, &then));
        let seen = match (&mut self.sampler, written_at) {
            (Some(sampler), Some(at)) => Some(PhaseSamples {
                samples: sampler.end().map_err(failed(SAMPLER))?,
                unwritten: dirty_and_writeback(),
                written: device.filter(|_| at.any).map(|device| device.bytes_written.0),
            }),
            _ => None,
        };
        self.ops_before += outcome.ops;
        let shares = done.done.clone();
        self.close_replay(workload, index, &done.differences)?;
        let recorder = done.into_recorder();
        let timeline = recorder.timeline();
        let end = durable.or(synced).unwrap_or(outcome.returned);
        let length = end.since(timeline.start().unwrap_or(outcome.started));
        self.series.extend(over_time::series(spec.name, timeline, length, seen));
        if self.calls() {
            let right = workload.counts_after(index, &shares);
            calls::compare(&recorder.counts(), &right, outcome.removals > 0)
                .map_err(|wrong| format!("phase {}: {wrong}", spec.name))?;
        }
        let units = workload.work_units_after(index, &shares);
        self.done.push(shares);
        Ok(Phase {
            name: spec.name.to_string(),
            returned_ns: outcome.returned.since(outcome.started),
            synced_ns: synced.map(|at| at.since(outcome.started)),
            durable_ns: durable.map(|at| at.since(outcome.started)),
            cpu_ns: spent.cpu - reading_cpu,
            user_ns: spent.user,
            system_ns: spent.system,
            split: Split::Sampled,
            kernel_cpu_ns: spent.kernel,
            processor: processor::between(counts_before, counts_returned)
                .zip(processor::between(counts_read, counts_settled))
                .map(|(issued, settled)| processor::sum(&issued, &settled)),
            limit_ns: workload.limit(index),
            unit: workload.unit(index).map(String::from),
            think_ns: outcome.think_time,
            ops: recorder.ops(),
            books: units.into_iter().map(|(name, n)| (name.to_string(), n)).collect(),
            bytes_written: outcome.bytes_written,
            bytes_read: outcome.bytes_read,
            device,
            devices: devices
                .into_iter()
                .filter_map(|(name, now)| {
                    let since = device_since(&now, devices_before.get(&name)?);
                    Some((name, since))
                })
                .collect(),
            dirty_bytes: dirty,
            space_used: self.space_used().map_err(failed("statfs"))?,
            instrument: Instrument {
                server_cpu_ns: spent.server,
                driver_cpu_ns: spent.driver,
                late_ns: self.target.late() - late_before,
                engine_ns: engine_cost.of(outcome.ops / u64::from(together)),
                sampler_cpu_ns: spent.sampler,
            },
        })
    }

    /// Logs the time of an event, in a logged trial.
    fn add_event(&self, kind: PhaseEventKind, phase: usize) {
        if let Some(acks) = &self.acks {
            acks.add_event(kind, phase, clock::now());
        }
    }

    /// Returns when the file system was synced, and when the device's own cache was empty, if that can be
    /// shown; `reading` is the instrument's own time and subtracted.
    fn settle(&mut self, reading: Nanos) -> Result<(Option<Nanos>, Option<Nanos>), String> {
        self.target.sync().map_err(failed("syncfs"))?;
        let synced = clock::now() - reading;
        let flushed = self.target.flush_device().map_err(failed("flush the device"))?;
        let durable = clock::now() - reading;
        Ok((Some(synced), flushed.then_some(durable)))
    }
}
