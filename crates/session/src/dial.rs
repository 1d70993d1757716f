//! The way out of the machine, behind a seam where tests answer.

use core::pin::Pin;
use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// What is waited for.
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Who opens connections.
pub trait Dial: Send + Sync + 'static {
    /// Connects to whoever the authority (`host:port`) stands for.
    fn dial(&self, authority: &str) -> Pending<io::Result<Dialled>>;
}

/// A connection that is open.
pub struct Dialled {
    /// Its bytes.
    pub stream: Box<dyn ByteStream>,
    /// Who is at its other end, whatever the name was.
    pub peer: IpAddr,
}

/// Bytes both ways.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// TCP, by the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Dial for Tcp {
    fn dial(&self, authority: &str) -> Pending<io::Result<Dialled>> {
        let authority = authority.to_owned();
        Box::pin(async move {
            let stream = TcpStream::connect(authority).await?;
            stream.set_nodelay(true)?;
            let peer = stream.peer_addr()?.ip();
            Ok(Dialled { stream: Box::new(stream), peer })
        })
    }
}
