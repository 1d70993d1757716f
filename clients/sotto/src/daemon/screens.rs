//! The desk of a participant that somebody else runs, without a socket: whole worlds in simulated time attach programs to it.

use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use super::desk::Desk;
use super::devices::Devices;
use super::face::Face;
use super::history::History;
use super::journal::Journal;
use super::news::News;
use super::serve;
use crate::Address;
use sotto_participant::{Event, Handle};

/// Where programs are attached, and what waits for them.
pub struct Screens {
    desk: Arc<Desk>,
    following: JoinHandle<()>,
}

impl Screens {
    /// With the news that wait in a directory, sealed under a key that everybody knows, of a participant at the server of this address.
    #[must_use]
    pub fn new(directory: &Path, handle: Handle, server: Address) -> Self {
        let news = Arc::new(Self::news(directory));
        let journal = Arc::new(Journal::new(news.read()));
        let following = tokio::spawn(news.follow(Arc::clone(&journal), Face::new(true)));
        let (history, _) = History::open(directory, &[0; 32]);
        // What cannot be written is told later.
        let _ = history.begin();
        let kept = (journal, Arc::new(history));
        let ways = (Arc::new(Devices::of(directory, &[0; 32])), None);
        Self {
            desk: Arc::new(Desk::new(handle, String::new(), server, None, kept, Face::new(true), ways)),
            following,
        }
    }

    /// How much waits to be told in a directory, by what lies there.
    #[must_use]
    pub fn waiting(directory: &Path) -> usize {
        Self::news(directory).read().len()
    }

    fn news(directory: &Path) -> News {
        News::of(directory, &[0; 32], false)
    }

    /// Takes down what the participant tells.
    pub async fn hear(&self, event: Event) {
        // One that has stopped tells nothing more.
        let _ = self.desk.hear(event).await;
    }

    /// Serves a program until it leaves.
    pub fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let desk = Arc::clone(&self.desk);
        async move { serve::serve(stream, &desk, serve::Seat::Here).await }
    }
}

impl Drop for Screens {
    fn drop(&mut self) {
        self.following.abort();
    }
}
