//! How a person ends a program.

/// Ctrl-C, or being told to end.
pub(crate) async fn interrupted() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            core::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupt => {}
        () = terminated() => {}
    }
}

/// As [`interrupted`], or, unless `detached`, the end of the terminal.
pub(super) async fn ended(detached: bool) {
    let mut interrupted = core::pin::pin!(interrupted());
    loop {
        tokio::select! {
            () = &mut interrupted => return,
            () = hung_up() => if !detached {
                return;
            },
        }
    }
}

#[cfg(unix)]
async fn terminated() {
    signal(tokio::signal::unix::SignalKind::terminate()).await;
}

#[cfg(unix)]
async fn hung_up() {
    signal(tokio::signal::unix::SignalKind::hangup()).await;
}

#[cfg(unix)]
async fn signal(kind: tokio::signal::unix::SignalKind) {
    match tokio::signal::unix::signal(kind) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(_) => core::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn terminated() {
    core::future::pending().await
}

#[cfg(not(unix))]
async fn hung_up() {
    core::future::pending().await
}
