//! `fsdyno why`: repeats stored trials under observation and explains where their time went.

use fsdyno_campaign::explain::{WhyRequest, explain_result};
use fsdyno_report::why::Explanation;

use crate::cli::Why;
use crate::exit::{Exit, Failure};
use crate::output;

/// Explains a result, or compares it with another one.
pub fn run(args: &Why) -> Result<Exit, Failure> {
    let request = WhyRequest {
        result: args.result.clone(),
        against: args.against.clone(),
        fs: args.fs.clone(),
        against_fs: args.against_fs.clone(),
        seed: args.seed,
        phase: args.phase.clone(),
        kernels: args.kernels.clone(),
        out: args.out.clone(),
    };
    let basis = args.comparison.basis(args.baseline.as_deref());
    explain_result(&request, basis, &mut |explained, against| {
        output::print(&Explanation { explained, against }, args.format)
    })?;
    Ok(Exit::Success)
}
