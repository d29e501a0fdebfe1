//! Turns what the doctor measured into findings: one sentence each, with the consequence and the
//! remedy.

use std::fmt;
use std::time::Duration;

use super::{Measurements, ServerMeasurement};
use crate::time::text;

/// The first version with recursive watches, which caches need.
const OLDEST: (u32, u32) = (3, 6);
/// The smallest clock difference that is reported, in milliseconds. A smaller one does not matter
/// in `zklock ls`.
const SKEW: i64 = 2_000;
/// Clock sources that do not fall behind, and that are read without a system call: `kvm-clock` and
/// `xen` only if the hypervisor marks its time as stable, which is not checked.
const CLOCK_SOURCES: [&str; 5] = [
    "tsc",
    "kvm-clock",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
    "xen",
];

pub(crate) fn findings(seen: &Measurements) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, measurement) in &seen.servers {
        match measurement {
            Err(error) => findings.push(format!(
                "{name} cannot be used ({error}); locks work only while a majority of the servers works: start this \
                 server, or check the network"
            )),
            Ok(measurement) => of_server(name, measurement, &mut findings),
        }
    }
    if let Some([(one, first), (other, second)]) =
        different(seen, |measurement| Some(text(measurement.granted)))
    {
        findings.push(format!(
            "{one} grants {first} and {other} grants {second} as session timeout; a session that moves to the server with the \
             shorter timeout is ended: set the same minSessionTimeout and maxSessionTimeout on all servers"
        ));
    }
    if let Some([(one, first), (other, second)]) =
        different(seen, |measurement| measurement.version.clone())
    {
        findings.push(format!(
            "{one} runs ZooKeeper {first} and {other} runs {second}: finish the upgrade"
        ));
    }
    let count = seen.servers.len();
    if count.is_multiple_of(2) {
        findings.push(format!(
            "{count} servers survive no more failures than {} do: use an odd number, if the connect string names all of them",
            count - 1
        ));
    }
    match &seen.node {
        Err(error) => findings.push(format!("locks below --root do not work: {error}")),
        Ok(ahead) if ahead.saturating_abs() > SKEW => {
            let direction = if *ahead > 0 { "ahead of" } else { "behind" };
            findings.push(format!(
                "the clock of the leader is {} {direction} this machine's: the locks work, but the ages in `zklock ls` are wrong \
                 by this difference; use NTP",
                text(Duration::from_millis(ahead.unsigned_abs()))
            ));
        }
        Ok(_) => {}
    }
    if let Some(source) = seen
        .clock_source
        .as_deref()
        .filter(|source| !CLOCK_SOURCES.contains(source))
    {
        findings.push(format!(
            "the clock source of this machine is {source}: its clock may be slow to read or lose time, and leases depend on it; see \
             /sys/devices/system/clocksource/clocksource0"
        ));
    }
    findings
}

fn of_server(name: &str, measurement: &ServerMeasurement, findings: &mut Vec<String>) {
    let ServerMeasurement {
        requested,
        granted,
        round_trip,
        version,
    } = measurement;
    if granted < requested {
        findings.push(format!(
            "{name} grants a session timeout of {}, not {}: raise maxSessionTimeout, or ask for less with --session-timeout",
            text(*granted),
            text(*requested)
        ));
    }
    if granted > requested {
        findings.push(format!(
            "{name} grants a session timeout of {}, more than {}: the lock of a dead process is free only after that time; lower \
             minSessionTimeout if that is too long",
            text(*granted),
            text(*requested)
        ));
    }
    if *round_trip > *granted / 50 {
        findings.push(format!(
            "a round trip to {name} takes {}: sessions with a timeout of {} may be lost under load; check its disk and the \
             network, or request a longer timeout with --session-timeout",
            text(*round_trip),
            text(*granted)
        ));
    }
    match version.as_deref().map(number) {
        None => findings.push(format!(
            "{name} does not report its version: to see it, add srvr to 4lw.commands.whitelist on the server"
        )),
        Some(Some(version)) if version < OLDEST => {
            findings.push(format!("{name} runs a ZooKeeper before 3.6: caches need recursive watches; upgrade it"));
        }
        Some(_) => {}
    }
}

/// The first two servers whose values differ, with these values. Servers without a value are
/// skipped.
fn different(
    seen: &Measurements,
    value: impl Fn(&ServerMeasurement) -> Option<String>,
) -> Option<[(&str, String); 2]> {
    let answers = seen
        .servers
        .iter()
        .filter_map(|(name, measurement)| Some((name, measurement.as_ref().ok()?)));
    let mut values =
        answers.filter_map(|(name, measurement)| Some((name.as_str(), value(measurement)?)));
    let first = values.next()?;
    let other = values.find(|(_, value)| *value != first.1)?;
    Some([first, other])
}

/// The first two numbers of a version.
fn number(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl fmt::Display for ServerMeasurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.as_deref().unwrap_or("of an unknown version");
        write!(
            f,
            "ZooKeeper {version}, session timeout {}, round trip ",
            text(self.granted)
        )?;
        if self.round_trip.as_millis() == 0 {
            f.write_str("less than 1ms")
        } else {
            f.write_str(&text(self.round_trip))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> ServerMeasurement {
        let time = Duration::from_secs(40);
        let round_trip = Duration::from_millis(2);
        ServerMeasurement {
            requested: time,
            granted: time,
            round_trip,
            version: Some("3.9.5".to_owned()),
        }
    }

    fn seen(servers: Vec<ServerMeasurement>) -> Measurements {
        let name = |index: usize| format!("zk{index}:2181");
        let servers = servers
            .into_iter()
            .enumerate()
            .map(|(index, measurement)| (name(index), Ok(measurement)))
            .collect();
        Measurements {
            servers,
            node: Ok(10),
            clock_source: Some("tsc".to_owned()),
        }
    }

    fn only_finding(found: &Measurements) -> String {
        let [finding] = findings(found).try_into().unwrap();
        finding
    }

    fn finding_after(change: impl FnOnce(&mut ServerMeasurement)) -> String {
        let mut measurement = healthy();
        change(&mut measurement);
        only_finding(&seen(vec![measurement]))
    }

    #[test]
    fn healthy_servers_yield_no_finding() {
        assert!(findings(&seen(vec![healthy()])).is_empty());
        assert!(findings(&seen(vec![healthy(), healthy(), healthy()])).is_empty());
    }

    #[test]
    fn each_problem_of_a_server_yields_one_finding() {
        let seconds = Duration::from_secs;
        assert!(
            finding_after(|measurement| measurement.granted = seconds(20))
                .starts_with("zk0:2181 grants a session timeout of 20s, not 40s")
        );
        assert!(
            finding_after(|measurement| measurement.requested = seconds(1))
                .contains("more than 1s")
        );
        assert!(
            finding_after(|measurement| measurement.round_trip = seconds(1))
                .starts_with("a round trip to zk0:2181 takes 1s")
        );
        assert!(
            finding_after(|measurement| measurement.version = None)
                .contains("4lw.commands.whitelist")
        );
        assert!(
            finding_after(|measurement| measurement.version = Some("3.5.9".to_owned()))
                .contains("before 3.6")
        );
    }

    #[test]
    fn differing_unreachable_or_an_even_number_of_servers_yield_findings() {
        let mut other = healthy();
        (other.granted, other.requested) = (Duration::from_secs(20), Duration::from_secs(20));
        assert!(
            only_finding(&seen(vec![healthy(), healthy(), other]))
                .starts_with("zk0:2181 grants 40s and zk2:2181 grants 20s")
        );
        let mut other = healthy();
        other.version = Some("3.8.0".to_owned());
        assert!(
            only_finding(&seen(vec![healthy(), healthy(), other]))
                .contains("runs 3.8.0: finish the upgrade")
        );
        assert!(
            only_finding(&seen(vec![healthy(), healthy()]))
                .contains("2 servers survive no more failures than 1 do")
        );
        let mut broken = seen(vec![healthy(), healthy(), healthy()]);
        broken.servers[1].1 = Err("connection refused".to_owned());
        assert!(only_finding(&broken).starts_with("zk1:2181 cannot be used (connection refused)"));
    }

    #[test]
    fn missing_permissions_and_clock_problems_yield_findings() {
        let mut found = seen(vec![healthy()]);
        found.node = Err("create /locks: denied".to_owned());
        assert!(only_finding(&found).ends_with("create /locks: denied"));
        found.node = Ok(i64::MIN);
        assert!(only_finding(&found).contains("behind this machine's"));
        found.node = Ok(-5_000);
        assert!(only_finding(&found).contains("5s behind this machine's"));
        let mut found = seen(vec![healthy()]);
        found.clock_source = Some("hpet".to_owned());
        assert!(only_finding(&found).contains("hpet"));
    }
}
