//! How far a measurement is.

use core::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on the terminal; hidden where the error output is not one.
pub fn bar(steps: usize, message: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:40} {bar:30} {percent} % {elapsed} gone, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(steps as u64).with_style(style).with_message(message.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
