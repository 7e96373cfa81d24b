//! Several targets in one command: runs each plan at the venue of its target.

use std::collections::BTreeMap;

use crate::Place;
use fsdyno_record::mailbox::Progress;
use fsdyno_record::{Job, Plan};
use fsdyno_venue::{FinishedTrial, Identity, Venue, VenueError, Watch};

/// The venues of a command's resolved targets ([`Place`]).
pub struct Venues(Vec<(Place, Option<Box<dyn Venue>>)>);

impl Venues {
    /// Creates the map from targets to venues; a target whose lab still needs a kernel download has no venue.
    pub fn new(places: Vec<(Place, Option<Box<dyn Venue>>)>) -> Venues {
        Venues(places)
    }

    fn venue_of(&self, plan: &Plan) -> Result<Option<&dyn Venue>, VenueError> {
        let found = self.0.iter().find(|(place, _)| place.target() == plan.target());
        let unknown =
            || VenueError::Failed("the plan's target is not one of this command's".into());
        Ok(found.ok_or_else(unknown)?.1.as_deref())
    }
}

impl Venue for Venues {
    fn identity(&self, plan: &Plan) -> Result<Option<Identity>, VenueError> {
        self.venue_of(plan)?.map_or(Ok(None), |venue| venue.identity(plan))
    }

    fn missing_snapshot(&self, plan: &Plan) -> Result<Option<String>, VenueError> {
        if let Some(venue) = self.venue_of(plan)? {
            return venue.missing_snapshot(plan);
        }
        // A kernel that is not downloaded has no snapshots.
        let lab = plan.lab().filter(|lab| !lab.boot.is_cold() && lab.accel.is_exact());
        let kind = plan.filesystem.as_ref().map_or("", |filesystem| filesystem.kind.as_str());
        let disk = plan.disk_name().unwrap_or_default();
        Ok(lab.map(|lab| {
            format!("{} {kind} on {disk}, CPU {}, RAM {}", lab.kernel, lab.cpu, lab.ram)
        }))
    }

    fn fingerprint(&self, plan: &Plan) -> Result<BTreeMap<String, String>, VenueError> {
        self.venue_of(plan)?.map_or(Ok(BTreeMap::new()), |venue| venue.fingerprint(plan))
    }

    fn run(
        &self,
        job: &Job,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError> {
        let no_venue = || VenueError::Failed("the plan's kernel is not downloaded".into());
        self.venue_of(&job.plan)?.ok_or_else(no_venue)?.run(job, watch)
    }
}
