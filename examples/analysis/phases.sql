-- Each phase of each file system, straight from the records: run in a result folder as
--   duckdb < phases.sql
-- A row is a plan (its hash has disk, options, age, threads and parameters in it) under one label, kernel and lab. What
-- a row may lack (a directory has no disk) is looked up in JSON, which knows no columns.
select
    trial.plan.workload.name as workload,
    trial.plan.label as filesystem,
    to_json(trial.plan) ->> '$.medium.disk.name' as disk,
    to_json(trial.plan) ->> '$.filesystem.age' as age,
    split_part(trial.conditions.kernel, ' ', 1) as kernel,
    phase.name as phase,
    count(*) as n,
    round(median(phase.durable_ns) / 1e9, 3) as durable_s,
    round(100 * stddev_samp(phase.durable_ns) / avg(phase.durable_ns), 2) as spread_percent,
    median(phase.device.writes)::int as writes
from read_json('trials.ndjson', format = 'newline_delimited') as trial,
    unnest(trial.measured.phases) as phases(phase)
where trial.outcome = 'ok'
group by trial.plan.hash, trial.lab_id, workload, filesystem, disk, age, kernel, phase.name
order by workload, phase.name, durable_s;
