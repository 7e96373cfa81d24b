//! The description of what a search would try and how long it would take, without running it.

use fsdyno_report::counted;
use fsdyno_report::table::Prose;
use fsdyno_tune::Space;

use super::{Tuning, bench, is_lab, request_for_space, restrict_space, restriction, settings};
use crate::speed::Speeds;
use crate::{Experiment, Failure};

impl Tuning {
    /// Describes the spaces, the minimum numbers of trials, and the time.
    ///
    /// # Errors
    /// A restriction that a space refuses.
    pub fn plan(&self, prose: Prose) -> Result<String, Failure> {
        let Tuning { request, spec, spaces, .. } = self;
        let (mut text, speeds) = (String::new(), Speeds::load());
        for space in spaces {
            let by = restriction(request, spec, None);
            let (space, dropped) = restrict_space(space, &by, spaces.len())?;
            let tried: Vec<_> =
                space.options.iter().filter(|option| option.values.len() > 1).collect();
            let settings = settings(request, is_lab(spec), request.budget.trials());
            let least = fsdyno_tune::least_trials(&space, &settings);
            text += &format!(
                "{}: {}, {} combinations; the smallest search takes {}\n",
                space.filesystem,
                counted(tried.len(), "option"),
                space.combinations(),
                counted(least, "trial")
            );
            for option in tried {
                let values: Vec<&str> =
                    option.values.iter().map(|value| value.name.as_str()).collect();
                text += &format!("  {}: {}\n", option.name, values.join(", "));
            }
            for it in dropped {
                text += &prose.indented(&format!("not tried: {}: {}", it.what, it.why), 2);
            }
            text += &prose.indented(&format!("time: {}", self.time(&space, least, &speeds)?), 2);
        }
        Ok(text + &prose.indented(&self.describe_later_work(), 0))
    }

    /// Describes the budget of one file system and, if trials of its kind have run here, what it is enough for.
    fn time(&self, space: &Space, least: usize, speeds: &Speeds) -> Result<String, Failure> {
        let budget = self.request.budget.part(self.spaces.len());
        let experiment = Experiment::resolve(request_for_space(&self.spec, space))?;
        let one_trial = speeds.estimate(experiment.cells.iter().take(1), 1);
        Ok(match one_trial {
            Some(estimate) => {
                let outlook = bench::outlook(budget, estimate.time, least);
                format!("{outlook} ({})", estimate.basis())
            }
            None => format!(
                "{}; the time of a trial is not known before the first one on this machine",
                bench::format_budget(budget)
            ),
        })
    }

    /// Describes the work after each file system's search, which the budget does not include.
    fn describe_later_work(&self) -> String {
        let cuts = match self.request.cuts {
            cuts if cuts > 0 && is_lab(&self.spec) => format!(
                "{} of the default and of each candidate, and ",
                counted(cuts as usize, "power cut")
            ),
            _ => String::new(),
        };
        format!("Not in the budget: {cuts}the trials of the winner with other work.")
    }
}
