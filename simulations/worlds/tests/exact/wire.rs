//! The wire between a person and the server, which can be cut.

use tokio::io::{DuplexStream, copy_bidirectional, duplex};
use tokio::sync::{mpsc, watch};

/// One person's wire.
pub(crate) struct Wire {
    pub(crate) dial: mpsc::UnboundedSender<DuplexStream>,
    cut: watch::Sender<()>,
    hung: watch::Sender<bool>,
}

impl Wire {
    /// A wire to whoever takes these connections.
    pub(crate) fn new(server: mpsc::UnboundedSender<DuplexStream>) -> Self {
        let (dial, mut dialled) = mpsc::unbounded_channel::<DuplexStream>();
        let (cut, is_cut) = watch::channel(());
        let (hung, is_hung) = watch::channel(false);
        tokio::spawn(async move {
            while let Some(mut near) = dialled.recv().await {
                let (mut middle, far) = duplex(1 << 20);
                drop(server.send(far));
                let mut is_cut = is_cut.clone();
                is_cut.mark_unchanged();
                let mut is_hung = is_hung.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        _ = is_cut.changed() => return,
                        _ = is_hung.wait_for(|hung| *hung) => {}
                        _ = copy_bidirectional(&mut near, &mut middle) => return,
                    }
                    let _ = is_cut.changed().await;
                });
            }
        });
        Self { dial, cut, hung }
    }

    /// Nothing goes through any more, and nothing ends.
    pub(crate) fn hang(&self) {
        self.hung.send_replace(true);
    }

    /// All connections break.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(());
    }
}
