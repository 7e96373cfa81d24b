//! Detects the launcher that started this process as one of several, from the environment that it sets.

use std::fmt;

use fsdyno_record::units::counted;

/// A way of starting ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A launcher with PMI-1 over an inherited descriptor: hydra (MPICH, Intel MPI), or srun with --mpi=pmi2.
    Mpich,
    /// Open MPI, or another PMIx launcher that sets rank and size in the variables of Open MPI.
    OpenMpi,
    /// srun.
    Slurm,
    /// An indexed Kubernetes job.
    Kubernetes,
    /// fsdyno itself, over ssh.
    Ssh,
    /// Another launcher: the variables `FSDYNO_RANK`, `FSDYNO_RANKS` and `FSDYNO_RUN`.
    Environment,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Mpich => "mpich",
            Kind::OpenMpi => "open-mpi",
            Kind::Slurm => "slurm",
            Kind::Kubernetes => "kubernetes",
            Kind::Ssh => "ssh",
            Kind::Environment => "environment",
        })
    }
}

/// The position of this process among those that its launcher started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The launcher.
    pub kind: Kind,
    /// The rank of this process, from zero.
    pub rank: u32,
    /// The number of ranks.
    pub ranks: u32,
    /// A string that is common to all ranks of this run and unique to the run; None if the launcher provides none.
    pub run: Option<String>,
    /// The descriptor for PMI-1, if the launcher provides it.
    pub pmi: Option<i32>,
}

/// Maximum number of ranks of a run.
pub const MAX_RANKS: u32 = 65_536;

/// Determines from the environment which rank this process is; `given` is the user's number of ranks, which only a
/// Kubernetes job needs. None if no launcher started this process.
///
/// # Errors
/// The variables of a launcher contradict each other or lack a value.
pub fn detect(
    env: &dyn Fn(&str) -> Option<String>,
    given: Option<u32>,
) -> Result<Option<Position>, String> {
    // Other launchers come first, since they may run inside a job of Slurm or Kubernetes.
    let position = match () {
        () if env("FSDYNO_RANK").is_some() => read_position(env, Kind::Environment, given)?,
        () if env("PMI_RANK").is_some() && env("PMI_FD").is_some() => {
            read_position(env, Kind::Mpich, given)?
        }
        () if env("OMPI_COMM_WORLD_RANK").is_some() => read_position(env, Kind::OpenMpi, given)?,
        () if env("SLURM_PROCID").is_some() => read_position(env, Kind::Slurm, given)?,
        () if env("JOB_COMPLETION_INDEX").is_some() => read_position(env, Kind::Kubernetes, given)?,
        () if env("FSDYNO_RANKS").is_some() => {
            return Err("FSDYNO_RANKS is set, and FSDYNO_RANK is not; set it to the number of this rank, from 0".into());
        }
        () => return Ok(None),
    };
    if let Some(given) = given.filter(|given| *given != position.ranks) {
        return Err(format!(
            "--ranks {given} is given, and the launcher ({}) started {}; leave the number out",
            position.kind,
            counted(position.ranks as usize, "rank")
        ));
    }
    Ok(Some(position))
}

/// Returns the MPI launcher that started this process as one of several, and their number. Other launchers also start
/// processes that have nothing to do with each other.
pub fn started_by_mpi(env: &dyn Fn(&str) -> Option<String>) -> Option<(Kind, u32)> {
    let position = detect(env, None).ok()??;
    let is_mpi = matches!(position.kind, Kind::Mpich | Kind::OpenMpi);
    (is_mpi && position.ranks > 1).then_some((position.kind, position.ranks))
}

/// Returns the variables for rank and size, and those that together identify a run.
fn variable_names(kind: Kind) -> (&'static str, &'static str, &'static [&'static str]) {
    match kind {
        Kind::Mpich => ("PMI_RANK", "PMI_SIZE", &[]),
        Kind::OpenMpi => (
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
        ),
        Kind::Slurm => ("SLURM_PROCID", "SLURM_NTASKS", &["SLURM_JOB_ID", "SLURM_STEP_ID"]),
        Kind::Kubernetes => ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", &["FSDYNO_RUN"]),
        Kind::Ssh | Kind::Environment => ("FSDYNO_RANK", "FSDYNO_RANKS", &["FSDYNO_RUN"]),
    }
}

fn read_position(
    env: &dyn Fn(&str) -> Option<String>,
    kind: Kind,
    given: Option<u32>,
) -> Result<Position, String> {
    let (rank_name, ranks_name, run_names) = variable_names(kind);
    let number = |name: &str| match env(name) {
        Some(text) => {
            let number = text.trim().parse::<u32>();
            number.map(Some).map_err(|_| format!("{name} is '{text}', not a whole number"))
        }
        None => Ok(None),
    };
    // In Slurm, a step may have fewer tasks than its job.
    let ranks = match (kind, number("SLURM_STEP_NUM_TASKS")?) {
        (Kind::Slurm, Some(tasks)) => Some(tasks),
        _ => number(ranks_name)?,
    };
    let rank = number(rank_name)?.unwrap_or(0);
    let ranks = ranks.or(given).ok_or_else(|| match kind {
        Kind::Kubernetes => format!(
            "{rank_name} is set and {ranks_name} is not: a Kubernetes job does not pass the number of pods to \
             its processes; give it, such as --ranks 16"
        ),
        _ => format!("{rank_name} is set and {ranks_name} is not; set both"),
    })?;
    if ranks == 0 || rank >= ranks || ranks > MAX_RANKS {
        return Err(format!(
            "{rank_name} is {rank} of {}; it must be below the number of ranks, which is at most {MAX_RANKS}",
            counted(ranks as usize, "rank")
        ));
    }
    let names: Vec<String> = run_names.iter().filter_map(|name| env(name)).collect();
    let run = (!names.is_empty()).then(|| to_file_name_part(&names.join("-")));
    let pmi = match kind {
        Kind::Mpich => env("PMI_FD").and_then(|text| text.parse().ok()),
        _ => None,
    };
    Ok(Position { kind, rank, ranks, run, pmi })
}

/// Converts text so that it can be part of a file name.
fn to_file_name_part(text: &str) -> String {
    let keep = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    text.chars().map(keep).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(set: &[(&str, &str)], given: Option<u32>) -> Result<Option<Position>, String> {
        let env = |name: &str| {
            set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
        };
        detect(&env, given)
    }

    /// The variables that each launcher sets, as seen with MPICH 4.0.2, Open MPI 4.1.4 and Slurm 22.05.
    #[test]
    fn each_launcher_is_recognized_by_its_variables() {
        let mpich = position(&[("PMI_FD", "9"), ("PMI_RANK", "3"), ("PMI_SIZE", "8")], None);
        let mpich = mpich.unwrap().unwrap();
        assert_eq!((mpich.kind, mpich.rank, mpich.ranks), (Kind::Mpich, 3, 8));
        assert_eq!((mpich.pmi, mpich.run), (Some(9), None));
        let open = position(
            &[
                ("OMPI_COMM_WORLD_RANK", "0"),
                ("OMPI_COMM_WORLD_SIZE", "2"),
                ("PMIX_NAMESPACE", "prterun-a@1"),
            ],
            None,
        );
        let open = open.unwrap().unwrap();
        assert_eq!((open.kind, open.run.as_deref()), (Kind::OpenMpi, Some("prterun-a-1")));
        let slurm = [
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "64"),
            ("SLURM_STEP_NUM_TASKS", "4"),
            ("SLURM_JOB_ID", "17"),
            ("SLURM_STEP_ID", "0"),
        ];
        let slurm = position(&slurm, None).unwrap().unwrap();
        assert_eq!((slurm.kind, slurm.ranks, slurm.run.as_deref()), (Kind::Slurm, 4, Some("17-0")));
        let pods = position(&[("JOB_COMPLETION_INDEX", "5")], Some(16)).unwrap().unwrap();
        assert_eq!((pods.kind, pods.rank, pods.ranks), (Kind::Kubernetes, 5, 16));
        assert_eq!(position(&[], None), Ok(None));
    }

    #[test]
    fn only_several_processes_of_an_mpi_launcher_are_ranks() {
        let started = |set: &[(&str, &str)]| {
            started_by_mpi(&|name: &str| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
            })
        };
        let hydra = |size| [("PMI_RANK", "0"), ("PMI_SIZE", size), ("PMI_FD", "9")];
        assert_eq!(started(&hydra("4")), Some((Kind::Mpich, 4)));
        assert_eq!(started(&hydra("1")), None);
        let open = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
        assert_eq!(started(&open), Some((Kind::OpenMpi, 2)));
        assert_eq!(started(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]), None);
        assert_eq!(started(&[]), None);
    }

    #[test]
    fn a_launcher_takes_precedence_over_the_job_in_which_it_runs() {
        let set = [
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "1"),
            ("PMI_FD", "7"),
            ("PMI_RANK", "2"),
            ("PMI_SIZE", "3"),
        ];
        assert_eq!(position(&set, None).unwrap().unwrap().rank, 2);
    }

    #[test]
    fn contradictory_variables_are_refused_with_a_hint() {
        let error = |set: &[(&str, &str)], given| position(set, given).unwrap_err();
        assert!(error(&[("JOB_COMPLETION_INDEX", "1")], None).contains("--ranks 16"));
        let two = [("FSDYNO_RANK", "2"), ("FSDYNO_RANKS", "2")];
        assert!(error(&two, None).contains("below the number of ranks"));
        let one = [("FSDYNO_RANK", "1"), ("FSDYNO_RANKS", "2")];
        assert!(error(&one, Some(3)).contains("leave the number out"));
        assert!(error(&[("FSDYNO_RANK", "x"), ("FSDYNO_RANKS", "2")], None).contains("'x'"));
        assert!(error(&[("FSDYNO_RANKS", "2")], None).contains("FSDYNO_RANK is not"));
    }
}
