//! A share of the processors for one process.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

const PERIOD_US: f64 = 100_000.0;

/// A control group with one process. It goes away with this, if the process has ended.
pub(crate) struct Share(PathBuf);

impl Share {
    /// Gives a process so much of a core.
    pub(crate) fn give(id: u32, cores: f64) -> anyhow::Result<Self> {
        let one = Path::new("/sys/fs/cgroup/cpu");
        let is_one = one.join("cpu.cfs_quota_us").exists();
        let root = if is_one { one } else { Path::new("/sys/fs/cgroup") };
        let group = root.join(format!("sotto-answerer-{id}"));
        let (period, quota) = (format!("{PERIOD_US:.0}"), format!("{:.0}", PERIOD_US * cores));
        let limited = || -> std::io::Result<()> {
            fs::create_dir(&group)?;
            if is_one {
                fs::write(group.join("cpu.cfs_period_us"), &period)?;
                fs::write(group.join("cpu.cfs_quota_us"), &quota)?;
            } else {
                fs::write(group.join("cpu.max"), format!("{quota} {period}"))?;
            }
            fs::write(group.join("cgroup.procs"), id.to_string())
        };
        limited().with_context(|| format!("no control group {}; it takes root", group.display()))?;
        Ok(Self(group))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // One that stays is empty.
        let _ = fs::remove_dir(&self.0);
    }
}
