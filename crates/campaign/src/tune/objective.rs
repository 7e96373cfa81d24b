//! The quantity that a search minimises: the weighted time of phases.

use fsdyno_record::suggest;
use fsdyno_record::trial::Trial;
use fsdyno_report::seconds;

use crate::{Failure, phase_name};

/// The weights of phases.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective(Vec<(String, f64)>);

impl Objective {
    /// Parses `PHASE=WEIGHT,...`; without text, every phase has weight 1.
    ///
    /// # Errors
    /// An unknown phase; a weight that is not a positive number.
    pub fn parse(text: Option<&str>, phases: &[String]) -> Result<Objective, Failure> {
        let Some(text) = text else {
            return Ok(Objective(phases.iter().map(|name| (name.clone(), 1.0)).collect()));
        };
        let mut weights: Vec<(String, f64)> = Vec::new();
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let invalid =
                |what: String| Err(Failure::invalid_use(format!("--objective {text}: {what}")));
            let names: Vec<&str> = phases.iter().map(String::as_str).collect();
            let Some(name) = phase_name::find(name, &names) else {
                let hint = suggest::hint(name, phases.iter().map(String::as_str));
                return invalid(format!("the workload has no phase '{name}'; {hint}"));
            };
            if weights.iter().any(|(known, _)| known == name) {
                return invalid(format!("'{name}' is given twice; give it once"));
            }
            match weight.parse::<f64>() {
                Ok(weight) if weight > 0.0 && weight.is_finite() => {
                    weights.push((name.into(), weight))
                }
                _ => {
                    return invalid(format!(
                        "'{weight}' is not a weight for '{name}'; give a positive number"
                    ));
                }
            }
        }
        Ok(Objective(weights))
    }

    /// Describes the objective.
    pub fn description(&self) -> String {
        let weight = |(name, weight): &(String, f64)| match *weight == 1.0 {
            true => name.clone(),
            false => format!("{weight} {name}"),
        };
        let terms: Vec<String> = self.0.iter().map(weight).collect();
        format!("minimised: time of {}", terms.join(" + "))
    }

    /// Returns the weight of a phase.
    pub fn weight(&self, phase: &str) -> f64 {
        self.0.iter().find(|(name, _)| name == phase).map_or(0.0, |(_, weight)| *weight)
    }

    /// Returns the value of a trial in seconds: until durable if that is known for every phase, else until returned.
    pub fn value(&self, trial: &Trial) -> f64 {
        times(trial).iter().map(|(name, time)| self.weight(name) * time).sum()
    }
}

/// Returns the time of each phase in seconds: until durable if that is known for every phase, else until returned.
pub fn times(trial: &Trial) -> Vec<(String, f64)> {
    let phases = &trial.measured.phases;
    let by_durable = phases.iter().all(|phase| phase.durable_ns.is_some());
    phases.iter().map(|phase| (phase.name.clone(), seconds::seconds(phase, by_durable))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_record::Nanos;
    use fsdyno_record::trial::Phase;

    fn parse(text: &str) -> Result<Objective, String> {
        let phases = ["setup", "deliver"].map(String::from);
        Objective::parse(Some(text), &phases).map_err(|failure| failure.message)
    }

    #[test]
    fn an_objective_weighs_phases_and_refuses_others() {
        assert_eq!(
            parse("deliver=2,setup").unwrap().description(),
            "minimised: time of 2 deliver + setup"
        );
        for (text, expected) in [
            ("delivr=2", "did you mean 'deliver'?"),
            ("deliver=0", "a positive number"),
            ("deliver=nan", "a positive number"),
            ("deliver=1,deliver=2", "twice"),
            ("", "no phase ''"),
            ("mkdir", "there are: setup, deliver"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_phase_may_be_named_by_its_system_call() {
        let phases = ["create", "delete"].map(String::from);
        let parse = |text: &str| Objective::parse(Some(text), &phases);
        let objective = parse("unlink=2").unwrap();
        assert_eq!((objective.weight("delete"), objective.weight("unlink")), (2.0, 0.0));
        assert!(
            parse("unlink=1,delete=1").unwrap_err().message.contains("'delete' is given twice")
        );
    }

    #[test]
    fn a_value_is_the_weighted_time_until_durable() {
        let phase = |name: &str, returned, durable| Phase {
            name: name.into(),
            returned_ns: Nanos(returned),
            durable_ns: Some(Nanos(durable)),
            ..Phase::default()
        };
        let phases = [phase("setup", 1, 2_000_000_000), phase("deliver", 1, 3_000_000_000)];
        let times: Vec<(String, f64)> =
            phases.iter().map(|it| (it.name.clone(), seconds::seconds(it, true))).collect();
        let objective = parse("deliver=2,setup=1").unwrap();
        let value: f64 = times.iter().map(|(name, time)| objective.weight(name) * time).sum();
        assert_eq!(value, 8.0);
    }
}
