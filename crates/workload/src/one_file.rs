//! Finds the only file name of a workload, for which a device can be substituted.

use fsdyno_record::OnDevice;

use crate::op::{DirSlot, Op};
use crate::workload::{Share, Workload};

/// Number of ops of each phase and rank that are examined for names; a workload with several files uses a second one
/// within these ops.
const EXAMINED_OPS: usize = 4096;

/// Returns the name of a workload's only file.
///
/// # Errors
/// The call or name that a one-file workload cannot have, as a sentence.
pub fn one_file(workload: &dyn Workload) -> Result<Vec<u8>, String> {
    if workload.prefill().is_some() {
        return Err("its first phase reads a prepared file".to_string());
    }
    let mut only: Option<Vec<u8>> = None;
    for (index, phase) in workload.phases().iter().enumerate() {
        let ranks = phase.threads.count_of(1);
        let counts = workload.counts(index, ranks);
        if let Some(kind) = counts.keys().find(|kind| kind.on_device() == OnDevice::Invalid) {
            return Err(format!("its phase {} calls {kind}", phase.name));
        }
        for rank in 0..ranks {
            let mut ops = workload.ops(index, Share { rank, ranks });
            let mut op = Op::default();
            for _ in 0..EXAMINED_OPS {
                if !ops.next(&mut op) {
                    break;
                }
                let facts = op.call.facts();
                if facts.kind.is_none_or(|kind| kind.on_device() == OnDevice::Invalid) {
                    return Err(format!("its phase {} has calls on directories", phase.name));
                }
                let Some(dir) = facts.dir else { continue };
                let name = op.name.as_bytes();
                let known = only.get_or_insert_with(|| name.to_vec());
                if dir != DirSlot::ROOT || known.as_slice() != name {
                    return Err(format!(
                        "its phase {} has a second file, {}",
                        phase.name,
                        op.name.display()
                    ));
                }
            }
        }
    }
    only.ok_or_else(|| "it does not open a file".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Setting, workloads};

    fn only_file_of(name: &str, sets: &[(&str, &str)]) -> Result<String, String> {
        let kind = workloads::find(name).unwrap();
        let params = kind.resolve(sets).unwrap();
        let workload = kind.build(&params, &Setting::seed(1)).unwrap();
        one_file(workload.as_ref()).map(|name| String::from_utf8(name).unwrap())
    }

    #[test]
    fn a_single_file_of_bonnie_is_recognized_and_trees_are_not() {
        assert!(only_file_of("bonnie", &[("files", "0")]).unwrap().contains("onnie"));
        assert!(only_file_of("bonnie", &[("program", "bonnie")]).is_ok());
        assert!(only_file_of("bonnie", &[]).unwrap_err().contains("calls mkdir"));
        assert!(only_file_of("dirops", &[]).unwrap_err().contains("its phase create calls mkdir"));
        assert!(only_file_of("bigfile", &[("reads", "9")]).unwrap() == "big");
        assert!(
            only_file_of("bigfile", &[("preallocate", "yes")])
                .unwrap_err()
                .contains("calls fallocate")
        );
        assert!(
            only_file_of("bigfile", &[("built", "offline")]).unwrap_err().contains("prepared file")
        );
        assert!(only_file_of("tarball", &[]).is_err() && only_file_of("capacity", &[]).is_err());
    }
}
