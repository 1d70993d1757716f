//! What anybody may send who reaches the socket.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{AskError, Backups, Commands, LINE_MAX, Request, Socket, Transferred, ask, serve};

/// A server's socket with no node behind it.
struct Stage {
    directory: tempfile::TempDir,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

impl Stage {
    fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = Socket::bind(directory.path(), ()).unwrap();
        let stop = CancellationToken::new();
        let backups = Backups::new(directory.path().to_owned(), tokio::sync::watch::channel(None).1);
        let serving = tokio::spawn(serve(socket, Commands { node: None, backups, next: None }, stop.clone()));
        Self { directory, stop, serving }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The answer to these bytes, to the end of the connection.
    async fn told(&self, bytes: Vec<u8>) -> String {
        let path = self.path().join("control");
        let talk = move || {
            let mut stream = UnixStream::connect(path).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            // It may have heard enough.
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            // What it did not read resets the connection behind the answer.
            let _ = stream.read_to_end(&mut answer);
            String::from_utf8(answer).unwrap()
        };
        tokio::task::spawn_blocking(talk).await.unwrap()
    }
}

#[tokio::test]
async fn whatever_is_sent_is_answered_and_others_are_answered_after_it() {
    let stage = Stage::open();
    let hostile: [&[u8]; 9] = [
        b"",
        b"\n",
        b"\0\0\0\0\n",
        b"\xff\xfe\xfd\n",
        b"{}\n",
        b"{\"ask\":\"nothing\"}\n",
        b"{\"ask\":\"transfer\",\"to\":-1}\n",
        b"{\"ask\":\"transfer\",\"too\":1}\n",
        b"{\"ask\":\"transfer\"",
    ];
    for bytes in hostile {
        let told = stage.told(bytes.to_vec()).await;
        assert!(told.starts_with("{\"refused\":\"") && told.ends_with("\"}\n"), "{bytes:?}: {told}");
    }
    let nested = "[".repeat(LINE_MAX * 4).into_bytes();
    let told = stage.told(nested).await;
    assert!(told.is_empty() || told.starts_with("{\"refused\":\""), "{told}");
    let path = stage.path().to_owned();
    let asked = move || ask::<Transferred>(&path, Request::Transfer { to: Some(2) }).map(|(done, _)| done);
    let refused = tokio::task::spawn_blocking(asked).await.unwrap();
    assert!(matches!(&refused, Err(AskError::Refused(why)) if why.contains("is alone")), "{refused:?}");
    stage.stop.cancel();
    stage.serving.await.unwrap();
    assert!(!stage.directory.path().join("control").exists());
}

/// In simulated time: whoever says nothing has its place for some seconds.
#[tokio::test(start_paused = true)]
async fn whoever_connects_and_says_nothing_holds_a_place_no_longer_than_it_may() {
    let stage = Stage::open();
    let path = stage.path().join("control");
    let mut silent = Vec::new();
    for _ in 0..serve::CONNECTIONS {
        silent.push(tokio::net::UnixStream::connect(&path).await.unwrap());
    }
    let began = tokio::time::Instant::now();
    let mut last = tokio::net::UnixStream::connect(&path).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut last, b"{\"ask\":\"transfer\"}\n").await.unwrap();
    let mut told = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut last, &mut told).await.unwrap();
    assert!(told.contains("is alone"), "{told}");
    assert_eq!(began.elapsed(), serve::PATIENCE);
}

#[test]
fn a_directory_without_a_server_is_told_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let asked = ask::<Transferred>(directory.path(), Request::Transfer { to: None }).map(|_| ());
    assert!(matches!(asked, Err(AskError::NotRunning(_))), "{asked:?}");
}
