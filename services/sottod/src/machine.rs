//! What the machine has to give, as far as it says so: defaults of the limits follow from it.

use std::fs;

/// Where a control group says how much memory its processes may take, the newer kind first; a container finds its own there.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// Memory that this process may come to use, bytes: that of the machine, or what its control group leaves of it.
pub(crate) fn memory_bytes() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let own = read("/proc/self/cgroup").and_then(|groups| {
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?.trim_end_matches('/').to_owned();
        read(&format!("/sys/fs/cgroup{path}/memory.max"))
    });
    let groups = own.into_iter().chain(GROUPS.into_iter().filter_map(read));
    least_memory(&read("/proc/meminfo")?, groups)
}

/// Files and connections that this process may have open.
pub(crate) fn open_files() -> Option<u64> {
    soft_limit(&fs::read_to_string("/proc/self/limits").ok()?)
}

fn least_memory(machine: &str, groups: impl Iterator<Item = String>) -> Option<u64> {
    let total = machine.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    // A group without a limit says "max", or a number beyond all memory.
    let limits = groups.filter_map(|limit| limit.trim().parse().ok());
    limits.chain([kibibytes.saturating_mul(1024)]).min()
}

fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{least_memory, soft_limit};

    const MACHINE: &str = "MemTotal:       16384 kB\nMemFree:         8192 kB\n";

    /// A server in a container that took the machine's memory for its own would be killed for what it promised to hold.
    #[test]
    fn a_container_counts_with_what_it_is_given_and_not_with_the_machine() {
        let with = |groups: &[&str]| least_memory(MACHINE, groups.iter().map(|&limit| limit.to_owned()));
        assert_eq!(with(&[]), Some(16 << 20));
        assert_eq!(with(&["4194304\n"]), Some(4 << 20));
        assert_eq!(with(&["max\n", "9223372036854771712\n"]), Some(16 << 20));
        assert_eq!(with(&["8388608\n", "4194304\n"]), Some(4 << 20));
        assert_eq!(least_memory("", [].into_iter()), None);
        assert_eq!(least_memory("MemTotal: many kB\n", [].into_iter()), None);
    }

    #[test]
    fn of_two_limits_of_open_files_the_one_that_holds_is_taken() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max processes             62987                62987                processes\n\
                      Max open files            1024                 524288               files\n";
        assert_eq!(soft_limit(limits), Some(1024));
        assert_eq!(
            soft_limit("Max open files            unlimited            unlimited            files"),
            None
        );
        assert_eq!(soft_limit(""), None);
    }
}
