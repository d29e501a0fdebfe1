//! Reads the resources that a process uses, from outside.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::{AddAssign, Sub};
use std::time::Duration;

/// The usage of a process since its start, or the sum over several processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processor time in user mode and in the kernel. The system's resolution is a hundredth of a
    /// second.
    pub(crate) processor: Duration,
    /// The context switches of each live thread, by thread id. The kernel drops a thread's counts
    /// when the thread ends, so a worker (a client process of the bench) keeps its threads until
    /// the bench sends the next request.
    threads: BTreeMap<u32, Switches>,
    /// Memory that is in use now, in bytes.
    pub(crate) resident: u64,
}

/// Context switches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// The thread waited for something.
    pub(crate) voluntary: u64,
    /// The thread was preempted.
    pub(crate) involuntary: u64,
}

impl Usage {
    /// Reads the usage of the process from `/proc`.
    pub(crate) fn of(process: u32) -> io::Result<Self> {
        let folder = format!("/proc/{process}");
        let mut usage = Self {
            processor: processor(&fs::read_to_string(format!("{folder}/stat"))?)
                .unwrap_or_default(),
            resident: 1024 * field(&fs::read_to_string(format!("{folder}/status"))?, "VmRSS"),
            ..Self::default()
        };
        for task in fs::read_dir(format!("{folder}/task"))? {
            let task = task?;
            let Some(number) = task.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // The thread may have ended.
            let Ok(status) = fs::read_to_string(task.path().join("status")) else {
                continue;
            };
            let voluntary = field(&status, "voluntary_ctxt_switches");
            let involuntary = field(&status, "nonvoluntary_ctxt_switches");
            usage.threads.insert(
                number,
                Switches {
                    voluntary,
                    involuntary,
                },
            );
        }
        Ok(usage)
    }

    /// The sum over all threads.
    pub(crate) fn switches(&self) -> Switches {
        self.threads
            .values()
            .fold(Switches::default(), |all, thread| Switches {
                voluntary: all.voluntary + thread.voluntary,
                involuntary: all.involuntary + thread.involuntary,
            })
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.processor += other.processor;
        self.threads.extend(other.threads);
        self.resident += other.resident;
    }
}

/// The usage between two readings. Switches of threads that have ended between them are not
/// counted.
impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            processor: self.processor.saturating_sub(earlier.processor),
            threads: self
                .threads
                .into_iter()
                .map(|(number, thread)| (number, thread.since(earlier.threads.get(&number))))
                .collect(),
            resident: self.resident.saturating_sub(earlier.resident),
        }
    }
}

impl Switches {
    fn since(self, earlier: Option<&Self>) -> Self {
        let earlier = earlier.copied().unwrap_or_default();
        Self {
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }
}

/// The processor time in `/proc/<pid>/stat`. The program's name is in parentheses, and may contain
/// any characters.
fn processor(stat: &str) -> Option<Duration> {
    let mut fields = stat
        .rsplit_once(") ")?
        .1
        .split(' ')
        .skip(11)
        .map(|ticks| ticks.parse::<u32>().ok());
    let ticks = fields.next()??.checked_add(fields.next()??)?;
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    Some(Duration::from_secs(1) * ticks / per_second.max(1))
}

/// A field of `/proc/<pid>/status`.
fn field(status: &str, name: &str) -> u64 {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_after_the_program_name_in_stat() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 30 0 0 0 150 25 1 2 20 0 1 0 5 6 7";
        let per_second = f64::from(u32::try_from(rustix::param::clock_ticks_per_second()).unwrap());
        assert!((processor(stat).unwrap().as_secs_f64() - 175.0 / per_second).abs() < 1e-6);
        assert_eq!(processor("torn"), None);
    }

    fn usage(threads: &[(u32, u64)], resident: u64) -> Usage {
        let switches = |&(number, voluntary): &(u32, u64)| {
            (
                number,
                Switches {
                    voluntary,
                    involuntary: 2 * voluntary,
                },
            )
        };
        let threads = threads.iter().map(switches).collect();
        Usage {
            processor: Duration::from_secs(1),
            threads,
            resident,
        }
    }

    #[test]
    fn usages_of_several_processes_are_summed() {
        let mut both = usage(&[(1, 2)], 10);
        both += usage(&[(7, 3)], 10);
        assert_eq!(
            (both.switches().voluntary, both.switches().involuntary),
            (5, 10)
        );
        assert_eq!(
            (both.resident, both.processor),
            (20, Duration::from_secs(2))
        );
    }

    #[test]
    fn switches_of_ended_threads_are_not_subtracted_from_the_others() {
        let before = usage(&[(1, 100), (2, 50)], 10);
        let after = usage(&[(1, 103), (3, 4)], 10);
        assert_eq!((after - before).switches().voluntary, 3 + 4);
    }
}
