//! The terminal, which is given back as it was however this ends.

use std::io::{self, Stdout, Write as _};
use std::panic;
use std::sync::Once;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste, EventStream};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::backend::OnBlanks;

/// A terminal that is taken over as long as this exists.
pub(super) struct Terminal {
    pub(super) inner: ratatui::Terminal<OnBlanks<CrosstermBackend<Stdout>>>,
    /// What is typed.
    pub(super) keys: EventStream,
}

impl Terminal {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// What the terminal says; it is as before then.
    pub(super) fn take() -> io::Result<Self> {
        restored_on_panic();
        enable_raw_mode()?;
        let taken = execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste)
            .and_then(|()| ratatui::Terminal::new(OnBlanks(CrosstermBackend::new(io::stdout()))));
        match taken {
            Ok(inner) => Ok(Self { inner, keys: EventStream::new() }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // What was drawn stays in neither of the two buffers.
        for _ in 0..2 {
            let _ = self.inner.draw(|_| {});
        }
        restore();
    }
}

/// Without a terminal there is nothing to restore.
fn restore() {
    let _ = execute!(io::stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}

/// What a panic says is read on a terminal that obeys again.
fn restored_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            restore();
            before(what);
        }));
    });
}
