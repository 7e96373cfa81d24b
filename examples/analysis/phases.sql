-- Each phase of each file system, straight from the records: run in a result folder as
--   duckdb < phases.sql
select
    trial.plan.workload.name as workload,
    trial.plan.label as filesystem,
    phase.name as phase,
    count(*) as n,
    round(median(phase.durable_ns) / 1e9, 3) as durable_s,
    round(100 * stddev_samp(phase.durable_ns) / avg(phase.durable_ns), 2) as spread_percent,
    median(phase.device.writes)::int as writes
from read_json('trials.ndjson', format = 'newline_delimited') as trial,
    unnest(trial.measured.phases) as phases(phase)
where trial.outcome = 'ok'
group by all
order by workload, phase, durable_s;
