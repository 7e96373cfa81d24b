use super::*;
use crate::fixture;
use crate::table::{Format, Style};

fn trial() -> Trial {
    let rank = |rank, started, returned, straggler| RankPhase {
        rank,
        started_ns: Nanos(started),
        returned_ns: Nanos(returned),
        items: 1000,
        ops: 2001,
        straggler,
        ..RankPhase::default()
    };
    let member =
        |rank, client| Member { rank, client, host: format!("node{client}"), ..Member::default() };
    let phase = RanksPhase {
        name: "create".into(),
        skew_ns: Nanos(2_000),
        skew_uncertainty_ns: Nanos(500),
        first_done_ns: Nanos(1_000_000_000),
        last_done_ns: Nanos(2_000_000_000),
        stonewall: None,
        ranks: vec![rank(0, 0, 1_000_000_000, false), rank(1, 2_000, 2_000_000_000, true)],
        views: vec![View { rank: 1, files: 2000, stale: 7, ..View::default() }],
    };
    let mut trial = fixture::trials().remove(0);
    trial.measured.ranks = Some(RanksMeasured {
        launcher: "mpich".into(),
        members: vec![member(0, 0), member(1, 1)],
        phases: vec![phase],
    });
    trial
}

#[test]
fn rates_are_of_all_ranks_until_the_last_is_done_and_stragglers_are_named() {
    let table = phase_table(&[trial()]).unwrap();
    assert_eq!(table.rows[0].cells[2], format_scaled(1000.0), "2000 items in 2 s");
    assert!(table.rows[0].cells[5].contains("±"), "{:?}", table.rows[0].cells);
    assert_eq!(table.rows[0].cells[9..], ["7", "rank 1"]);
    let clients = clients(&[trial()]);
    assert_eq!(clients.len(), 2);
    assert_eq!((clients[1].items, clients[1].ranks), (1000, 1));
}

#[test]
fn the_rate_at_a_stonewall_has_a_column_only_if_there_is_a_stonewall() {
    let mut with_stonewall = trial();
    let wall = Stonewall {
        reached_ns: Nanos(500_000_000),
        items: 300,
        all: 1000,
        unit: "files".into(),
        ..Stonewall::default()
    };
    with_stonewall.measured.ranks.as_mut().unwrap().phases[0].stonewall = Some(wall);
    let table = phase_table(&[with_stonewall]).unwrap();
    assert_eq!(table.rows[0].cells[3], "600 files/s", "300 in half a second");
    assert_eq!(table.rows[0].cells[4], "500 files/s", "1000 in two seconds");
    assert_eq!(table.rows[0].cells.len(), phase_table(&[trial()]).unwrap().rows[0].cells.len() + 2);
}

#[test]
fn each_workload_has_a_curve_over_ranks_with_the_mean_of_repeats() {
    let trial_of = |ranks: u32, files: &str, seconds: u64| {
        let mut trial = trial();
        let plan = RanksPlan { ranks, shift: ranks - 1, ..RanksPlan::default() };
        trial.plan.label = format!("ext4{}", plan.label_suffix());
        trial.plan.venue = VenuePlan::Ranks(plan);
        trial.plan.workload.params.insert("files".into(), files.into());
        trial.plan.hash = format!("{files} files, {ranks} ranks");
        trial.measured.ranks.as_mut().unwrap().phases[0].last_done_ns =
            Nanos(seconds * 1_000_000_000);
        trial
    };
    let trials = [
        trial_of(2, "9", 2),
        trial_of(1, "9", 4),
        trial_of(2, "9", 1),
        trial_of(4, "9", 1),
        trial_of(1, "7", 1),
    ];
    let rows = points(&trials);
    let shown = |row: &ScalingRow| (row.ranks, row.rates.len(), row.rate(), row.scaling.ratio);
    let curve: Vec<_> = rows.iter().filter(|row| row.subject.contains("=9")).map(shown).collect();
    // 2,000 items each.
    let expected = [(1, 1, 500.0, Some(1.0)), (2, 2, 1500.0, Some(3.0)), (4, 1, 2000.0, Some(4.0))];
    assert_eq!(curve, expected);
    assert!(rows.iter().all(|row| !row.subject.contains("rank")), "{}", rows[0].subject);
    assert_eq!(rows.iter().filter(|row| row.scaling.ratio.is_none()).count(), 1);
    let table = scaling_table(&trials).unwrap();
    assert_eq!(table.rows.len(), 3);
    let text = Format::Text.write(&Ranks { trials: &trials }, Style::default()).unwrap();
    assert!(text.starts_with("Scaling\n") && text.contains(" ± "), "{text}");
    assert!(
        !text.contains("Each rank") && text.contains("has each client and each rank"),
        "{text}"
    );
    let json = |trials: &[Trial]| -> serde_json::Value {
        let text = Format::Json.write(&Ranks { trials }, Style::default()).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let all = json(&trials);
    assert_eq!(all["trials"].as_array().unwrap().len(), 5);
    let rates = all["scaling"].as_array().unwrap().iter();
    let rates =
        rates.map(|row| [&row["ranks"], &row["trials"], &row["items_per_s"], &row["scaling"]]);
    let rates = serde_json::json!(rates.collect::<Vec<_>>());
    assert_eq!(
        rates,
        serde_json::json!([[1, 1, 500.0, 1.0], [2, 2, 1500.0, 3.0], [4, 1, 2000.0, 4.0]])
    );
    // The two trials of this point differ by a factor of two, so they decide nothing.
    assert_eq!(all["scaling"][1]["knee"], false, "{all}");
    assert!(all["scaling"][1]["items_per_s_half_width"].as_f64().unwrap() > 1500.0, "{all}");
    assert_eq!(json(&trials[..1])["scaling"], serde_json::json!([]));
}

#[test]
fn stragglers_are_named_as_ranks_however_many_there_are() {
    let mut trial = trial();
    let named = |late: u32, trial: &mut Trial| {
        let ranks = &mut trial.measured.ranks.as_mut().unwrap().phases[0].ranks;
        *ranks = (0..9)
            .map(|rank| RankPhase { rank, straggler: rank < late, ..RankPhase::default() })
            .collect();
        phases(std::slice::from_ref(trial))[0].stragglers()
    };
    let shown: Vec<String> = [0, 1, 3, 5].map(|late| named(late, &mut trial)).into();
    assert_eq!(shown, ["", "rank 0", "ranks 0, 1, 2", "ranks 0, 1, 2 and 2 more"]);
}

#[test]
fn csv_has_a_row_for_each_rank_and_phase() {
    let mut trials = [trial()];
    trials[0].conditions.notes.push("4 ranks on 2 processors of node1".into());
    let csv = Format::Csv.write(&Ranks { trials: &trials }, Style::default()).unwrap();
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(csv.lines().nth(2).unwrap().contains("node1"), "{csv}");
    let text = Format::Text.write(&Ranks { trials: &trials }, Style::default()).unwrap();
    for part in ["Ranks", "Each client", "Each rank", "Note: 4 ranks on 2 processors of node1.\n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let empty = Format::Text.write(&Ranks { trials: &[] }, Style::default()).unwrap();
    assert!(empty.contains("--ranks"), "{empty}");
}
