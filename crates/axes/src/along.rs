//! Steps along an axis: trials that differ in nothing else, in the order of its values.

use fsdyno_record::Plan;

use crate::naming::{params, period};
use crate::subject::Subject;
use crate::{AXES, Axis, TargetKind};

/// An axis along which trials take steps, and the kinds of targets that decide what is a condition of a step.
pub struct SteppedAxis {
    axis: &'static Axis,
    /// The kinds of the trials' targets: an axis that does not apply to one of these is not a condition of a step.
    targets: Vec<TargetKind>,
}

impl SteppedAxis {
    /// Prepares steps along `axis` between trials with these plans.
    pub fn new<'p>(axis: &'static Axis, plans: impl Iterator<Item = &'p Plan>) -> SteppedAxis {
        let mut targets: Vec<TargetKind> = Vec::new();
        for kind in plans.map(TargetKind::of) {
            if !targets.contains(&kind) {
                targets.push(kind);
            }
        }
        SteppedAxis { axis, targets }
    }

    /// Returns the conditions of a subject other than the axis, as a string that is equal for both sides of a step.
    pub fn conditions(&self, subject: &Subject<'_>) -> String {
        let Subject { plan, .. } = subject;
        let shared = |axis: &&Axis| {
            let is_applicable = self.targets.iter().all(|kind| axis.targets.contains(kind));
            is_applicable && axis.key != self.axis.key && !self.axis.sets_default_of(axis)
        };
        let axes = AXES.iter().filter(shared).map(|axis| {
            let labels = axis.labels.iter().map(|label| (label.text)(subject));
            (axis.key, labels.collect::<Vec<_>>())
        });
        let axes: Vec<_> = axes.collect();
        let conditions = self.axis.labels.iter().filter(|label| label.condition);
        let conditions: Vec<_> = conditions.map(|label| (label.text)(subject)).collect();
        let label = Some(&plan.label).filter(|_| !self.axis.names_rows);
        let workload = (&plan.workload.name, params(plan).collect::<Vec<_>>());
        format!("{:?}", (workload, label, axes, conditions, period(plan), &plan.sysctls))
    }

    /// Returns the subject's value on this axis, as text; `None` if the axis does not apply to the subject.
    pub fn value(&self, subject: &Subject<'_>) -> Option<String> {
        self.axis.words(subject)
    }
}

/// Returns the keys of the axes whose values differ between these subjects.
pub fn differing(subjects: &[Subject<'_>]) -> Vec<&'static str> {
    let differs = |axis: &&Axis| {
        let first = subjects.first().and_then(|subject| axis.words(subject));
        subjects.iter().any(|subject| axis.words(subject) != first)
    };
    AXES.iter().filter(differs).map(|axis| axis.key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naming::tests::plan;

    #[test]
    fn conditions_are_equal_if_only_the_axis_differs() {
        let (base, mut new) = (plan(), plan());
        new.lab_mut().unwrap().kernel = "7.3.4".into();
        let [kernel, fs] = ["kernel", "fs"]
            .map(|key| SteppedAxis::new(Axis::of(key).unwrap(), [&base, &new].into_iter()));
        let same = |along: &SteppedAxis, new: &Plan| {
            along.conditions(&(&base).into()) == along.conditions(&new.into())
        };
        assert!(same(&kernel, &new) && !same(&fs, &new));
        assert_eq!(kernel.value(&(&new).into()).as_deref(), Some("7.3.4"));
        new.threads = 4;
        assert!(!same(&kernel, &new));
        let subjects: [Subject<'_>; 2] = [(&base).into(), (&new).into()];
        assert_eq!(differing(&subjects), ["kernel", "threads"]);
    }
}
