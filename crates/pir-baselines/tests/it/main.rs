//! What the crate promises, through its public interface alone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

mod doublepir;
mod fastpir;
mod onionpir;
mod paper;
mod psir;
mod seam;
mod simplepir;
mod spiral;
mod xpir;

use std::process::Command;

use pir_core::ring::{Backend, KERNEL_VARIABLE};

/// A test runs by itself with the kernel in use; this runs it with every other one of this machine, each in a process of its own, since a
/// process keeps to its kernel.
fn passes_with_other_kernels(test: &str) {
    for backend in Backend::available().filter(|backend| *backend != Backend::active()) {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(KERNEL_VARIABLE, backend.name())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{}: {text}", backend.name());
    }
}
