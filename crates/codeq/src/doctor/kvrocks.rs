//! Is every server of the Kvrocks store there, and fit for it?

use super::report::Report;
use codeq_server::config::{Config, Kvrocks};
use codeq_store::kvrocks::{CLOCKS_APART, Inspection, inspect};

pub async fn check(report: &mut Report, config: &Config, kvrocks: &Kvrocks) {
    let Some(options) = codeq_server::kvrocks_options(config) else { return };
    let mut deployments: Vec<(String, Option<String>)> = Vec::new();
    for (shard, found) in inspect(&options).await {
        match found {
            Ok(found) => {
                tell(report, kvrocks, &shard, &found);
                deployments.push((shard, found.deployment));
            }
            Err(reason) => {
                let next =
                    "start Kvrocks, open the way to it, or correct persistenceConfig and sharding.backends";
                let place = options.sharding.backends.get(&shard).unwrap_or(&options.backend);
                let text = format!("kvrocks at {} (shard {shard}): {reason}", place.address);
                report.error("store", text, next);
            }
        }
    }
    compare(report, &deployments);
}

/// All servers belong to one deployment. None of them does before the first start.
fn compare(report: &mut Report, deployments: &[(String, Option<String>)]) {
    let Some(ours) = deployments.iter().find_map(|(_, id)| id.as_ref()) else { return };
    for (shard, id) in deployments.iter().filter(|(_, id)| id.as_ref() != Some(ours)) {
        let text = match id {
            Some(id) => format!("shard {shard} belongs to deployment {id}, others to {ours}"),
            None => format!("shard {shard} has no codeq:layout: its server is new, or has lost what it held"),
        };
        let next = format!("bring its data back, or run: codeq store accept {shard} --deployment {ours}");
        match id {
            Some(_) => report.error("store", text, &next),
            None => report.warn("store", text, &next),
        }
    }
}

fn tell(report: &mut Report, kvrocks: &Kvrocks, shard: &str, found: &Inspection) {
    let (address, replicas) = (&found.address, found.replicas);
    report
        .ok("store", format!("kvrocks at {address} (shard {shard}): master, {replicas} replicas connected"));
    if u64::from(kvrocks.wait_replicas) > replicas {
        let wanted = kvrocks.wait_replicas;
        let text =
            format!("waitReplicas is {wanted}, but {address} has {replicas} replicas: writes are refused");
        report.error("store", text, "connect the replicas, or lower persistenceConfig.waitReplicas");
    } else if replicas > u64::from(kvrocks.wait_replicas) {
        let text = format!("{address} has {replicas} replicas, waitReplicas is {}", kvrocks.wait_replicas);
        let next = "set persistenceConfig.waitReplicas to the number of replicas that may be promoted: else a \
            failover can lose what was answered";
        report.warn("store", text, next);
    }
    if found.clock_ms.unsigned_abs() > u64::try_from(CLOCKS_APART.as_millis()).unwrap_or(u64::MAX) {
        let text = format!("the clock of {address} is {} ms from ours", found.clock_ms);
        report.warn("store", text, "let both follow the same time servers");
    }
    if found.needs_full_coverage {
        let text = format!("{address}: every master refuses when one is uncovered");
        report.error("store", text, "set cluster-require-full-coverage no on every server of the cluster");
    }
}
