//! Several places in one command: each plan goes to the venue of its own.

use std::collections::BTreeMap;

use fsdyno_record::mailbox::Progress;
use fsdyno_record::plan::MediumPlan;
use fsdyno_record::{Job, Plan};
use fsdyno_study::Place;
use fsdyno_venue::{FinishedTrial, Identity, Venue, VenueError, Watch};

/// The venues of a command's places.
pub struct Venues(Vec<(Place, Option<Box<dyn Venue>>)>);

impl Venues {
    /// The venue of each place; none where it cannot be known yet what it can run, as with a lab whose kernel
    /// is still to be brought.
    pub fn new(places: Vec<(Place, Option<Box<dyn Venue>>)>) -> Venues {
        Venues(places)
    }

    fn of(&self, plan: &Plan) -> Result<Option<&dyn Venue>, VenueError> {
        let found = self.0.iter().find(|(place, _)| is_at(plan, place));
        let nowhere = || VenueError::Died("a plan for a place that was not named".into());
        Ok(found.ok_or_else(nowhere)?.1.as_deref())
    }
}

/// Whether a plan is for a place.
fn is_at(plan: &Plan, place: &Place) -> bool {
    match (&plan.medium, place) {
        (MediumPlan::Lab(_), Place::Lab(_)) | (MediumPlan::Model(_), Place::Model(_)) => true,
        (MediumPlan::Device(device), Place::Device(place)) => device.on == place.on,
        (MediumPlan::Directory { path }, Place::Directory { path: place, .. }) => {
            place.to_str() == Some(path)
        }
        _ => false,
    }
}

impl Venue for Venues {
    fn identity(&self, plan: &Plan) -> Result<Option<Identity>, VenueError> {
        self.of(plan)?.map_or(Ok(None), |venue| venue.identity(plan))
    }

    fn fingerprint(&self, plan: &Plan) -> Result<BTreeMap<String, String>, VenueError> {
        self.of(plan)?.map_or(Ok(BTreeMap::new()), |venue| venue.fingerprint(plan))
    }

    fn run(
        &self,
        job: &Job,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError> {
        let unknown = || VenueError::Died("nothing is there yet to run it".into());
        self.of(&job.plan)?.ok_or_else(unknown)?.run(job, watch)
    }
}
