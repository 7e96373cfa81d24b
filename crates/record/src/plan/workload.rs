//! The workload of a plan.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// A workload by name with every parameter, defaults included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadPlan {
    /// Its name in `fsdyno list workloads`.
    pub name: String,
    /// Parameter → value, as `--set` takes them.
    pub params: BTreeMap<String, String>,
    /// The input file of the workload, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputPlan>,
}

/// A user's file that a workload works on (an archive, real mail), as the uncompressed tar
/// archive that the agent receives; the parameter for it contains the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputPlan {
    /// The parameter with its path. The plan's hash omits that path, because equal
    /// bytes mean equal work.
    pub parameter: String,
    /// SHA-256 of the archive, in hex.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^[0-9a-f]{64}$")))]
    pub sha256: String,
    /// Its size.
    pub bytes: Bytes,
}
