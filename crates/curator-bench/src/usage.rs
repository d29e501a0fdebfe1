//! What a process uses, as the system sees it from outside.

use std::fs;
use std::io;
use std::ops::{AddAssign, Sub};
use std::time::Duration;

/// Since the process began; of several processes, the sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// In user mode and in the kernel. The system tells it in hundredths of a second.
    pub(crate) processor: Duration,
    /// Threads have waited for something. Those of threads that are over are not known.
    pub(crate) voluntary: u64,
    /// Threads had to give way to others.
    pub(crate) involuntary: u64,
    /// Memory that is in use now, in bytes.
    pub(crate) resident: u64,
}

impl Usage {
    /// Reads `/proc`.
    pub(crate) fn of(process: u32) -> io::Result<Self> {
        let folder = format!("/proc/{process}");
        let mut usage = Self {
            processor: processor(&fs::read_to_string(format!("{folder}/stat"))?).unwrap_or_default(),
            resident: 1024 * field(&fs::read_to_string(format!("{folder}/status"))?, "VmRSS"),
            ..Self::default()
        };
        for task in fs::read_dir(format!("{folder}/task"))? {
            // It may be over by now.
            let Ok(status) = fs::read_to_string(task?.path().join("status")) else { continue };
            usage.voluntary += field(&status, "voluntary_ctxt_switches");
            usage.involuntary += field(&status, "nonvoluntary_ctxt_switches");
        }
        Ok(usage)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.processor += other.processor;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.resident += other.resident;
    }
}

/// What was used between two looks. Nothing is less than before, unless a thread has ended; then it is taken as 0.
impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            processor: self.processor.saturating_sub(earlier.processor),
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
            resident: self.resident.saturating_sub(earlier.resident),
        }
    }
}

/// Of `/proc/<pid>/stat`: the name of the program stands in parentheses, and may contain anything.
fn processor(stat: &str) -> Option<Duration> {
    let mut behind = stat.rsplit_once(") ")?.1.split(' ').skip(11).map(|ticks| ticks.parse::<u32>().ok());
    let ticks = behind.next()??.checked_add(behind.next()??)?;
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    Some(Duration::from_secs(1) * ticks / per_second.max(1))
}

/// Of `/proc/<pid>/status`.
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_stat_is_read_behind_the_programs_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 30 0 0 0 150 25 1 2 20 0 1 0 5 6 7";
        let per_second = f64::from(u32::try_from(rustix::param::clock_ticks_per_second()).unwrap());
        assert!((processor(stat).unwrap().as_secs_f64() - 175.0 / per_second).abs() < 1e-6);
        assert_eq!(processor("torn"), None);
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let status = "Name:\tx\nVmRSS:\t    2048 kB\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(field(status, "VmRSS"), 2048);
        assert_eq!(field(status, "voluntary_ctxt_switches"), 12);
        assert_eq!(field(status, "nonvoluntary_ctxt_switches"), 3);
        assert_eq!(field(status, "VmSwap"), 0);
    }

    #[test]
    fn this_process_uses_a_processor_and_memory() {
        let process = std::process::id();
        let before = Usage::of(process).unwrap();
        let begin = Instant::now();
        // Until the system has told of it, which it does in hundredths of a second.
        while (Usage::of(process).unwrap() - before).processor.is_zero() {
            assert!(begin.elapsed() < Duration::from_secs(30));
        }
        assert!(before.resident > 0);
        assert!(Usage::of(u32::MAX).is_err());
    }

    #[test]
    fn several_processes_are_one() {
        let one = Usage { processor: Duration::from_secs(1), voluntary: 2, involuntary: 1, resident: 10 };
        let mut both = one;
        both += one;
        assert_eq!((both.voluntary, both.involuntary), (4, 2));
        assert_eq!((both.resident, both.processor), (20, Duration::from_secs(2)));
        assert_eq!(one - both, Usage::default());
    }
}
