#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use core::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, split};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;

use super::super::devices::Devices;
use super::super::frame::{AWAY, Frames, write};
use super::super::message::Private;
use super::{Came, Door, GUESTS_MAX, Guest};
use crate::device::attached::Attached;
use crate::device::code::Code;
use crate::device::key::{Key, no_name};
use crate::device::pairing::{Pair, Paired};

/// A door behind which somebody says back what is said, as long as the device is known; and what becomes of who comes.
struct House {
    door: Arc<Door>,
    devices: Arc<Devices>,
    came: mpsc::UnboundedReceiver<&'static str>,
    home: tempfile::TempDir,
}

impl House {
    async fn open() -> Self {
        let home = tempfile::tempdir().unwrap();
        let devices = Arc::new(Devices::of(home.path(), &[1; 32]));
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let door = Arc::new(Door::open(at, Arc::clone(&devices)).await.unwrap());
        let (tell, came) = mpsc::unbounded_channel();
        let opened = Arc::clone(&door);
        tokio::spawn(async move {
            loop {
                let knocking = opened.accept().await.unwrap();
                let (door, tell) = (Arc::clone(&opened), tell.clone());
                tokio::spawn(async move {
                    let came = door.receive(knocking, "alice").await;
                    let what = match &came {
                        Came::Device(_) => "device",
                        Came::Paired(_) => "paired",
                        Came::Refused => "refused",
                        Came::Nobody => "nobody",
                    };
                    tell.send(what).unwrap();
                    if let Came::Device(guest) = came {
                        let Guest { stream, key, .. } = *guest;
                        tokio::select! {
                            () = echo(stream) => tell.send("left").unwrap(),
                            () = door.revoked(&key) => tell.send("revoked").unwrap(),
                        }
                    }
                });
            }
        });
        Self { door, devices, came, home }
    }

    fn code(&self) -> Code {
        Code::read(&self.door.code(None).unwrap().0).unwrap()
    }

    async fn comes(&mut self) -> &'static str {
        self.came.recv().await.unwrap()
    }

    /// A home of a device, which is paired.
    async fn pair(&mut self, name: &str) -> Attached {
        let (attached, of) = Attached::pair(&self.device(name), &self.code(), name).await.unwrap();
        assert_eq!((of.as_str(), self.comes().await), ("alice", "paired"));
        attached
    }

    fn device(&self, name: &str) -> std::path::PathBuf {
        let directory = self.home.path().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }
}

async fn echo(stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite) {
    let (input, mut output) = split(stream);
    let mut frames = Frames::new(input, AWAY);
    while let Ok(Some(said)) = frames.next::<String>().await {
        if write(&mut output, &said, AWAY).await.is_err() {
            return;
        }
    }
}

/// Whether something is said back over a connection of this device.
async fn speaks(attached: &Attached) -> bool {
    let Ok(stream) = attached.connect().await else { return false };
    let (input, mut output) = split(stream);
    let said = write(&mut output, &"hello", AWAY).await.is_ok();
    said && matches!(Frames::new(input, AWAY).next::<String>().await, Ok(Some(said)) if said == "hello")
}

/// With any key, as a device would.
async fn connect(key: &Key, house: &House) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let stream = TcpStream::connect(house.door.address()).await?;
    let config = key.client_config(house.devices.key()?.public()).unwrap();
    TlsConnector::from(config).connect(no_name(), stream).await
}

async fn pairs(key: &Key, house: &House, secret: &str) -> Option<Paired> {
    let (input, mut output) = split(connect(key, house).await.ok()?);
    let pair = Pair { secret: Private::new(secret), name: "stranger".to_owned() };
    write(&mut output, &pair, AWAY).await.ok()?;
    Frames::new(input, AWAY).next().await.ok().flatten()
}

#[tokio::test]
async fn a_paired_device_comes_again_and_a_revoked_one_is_gone_at_once() {
    let mut house = House::open().await;
    let phone = house.pair("phone").await;
    assert!(speaks(&phone).await);
    assert_eq!([house.comes().await, house.comes().await], ["device", "left"]);
    // What it keeps is enough, and the participant knows it after a restart.
    let again = Attached::of(&house.device("phone")).unwrap().unwrap();
    let stream = again.connect().await.unwrap();
    assert_eq!(house.comes().await, "device");
    let (input, mut output) = split(stream);
    let mut frames = Frames::new(input, AWAY);
    write(&mut output, &"before", AWAY).await.unwrap();
    assert_eq!(frames.next::<String>().await.unwrap().as_deref(), Some("before"));

    assert!(house.devices.revoke("phone").unwrap());
    assert_eq!(house.comes().await, "revoked");
    let _ = write(&mut output, &"after", AWAY).await;
    assert!(!matches!(frames.next::<String>().await, Ok(Some(_))), "it has ended");
    assert!(!speaks(&again).await);
    assert_eq!(house.comes().await, "nobody");
    // Nobody else is touched by that, and the same name can come again.
    let phone = house.pair("phone").await;
    assert!(speaks(&phone).await);
}

#[tokio::test]
async fn who_is_not_known_and_has_no_code_is_refused_before_anything_is_said() {
    let mut house = House::open().await;
    let stranger = Key::new();
    let refused = async |house: &House| match connect(&stranger, house).await {
        Err(_) => true,
        // The handshake of TLS 1.3 is over for a client before it is for the server.
        Ok(mut stream) => !matches!(stream.read(&mut [0]).await, Ok(1..)),
    };
    assert!(refused(&house).await);
    assert_eq!(house.comes().await, "nobody");
    let phone = house.pair("phone").await;
    assert!(refused(&house).await, "the code has served");
    assert_eq!(house.comes().await, "nobody");
    // Without a key, and without TLS.
    let mut plain = TcpStream::connect(house.door.address()).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said).await;
    assert!(said.len() < 64, "an alert at most");
    assert_eq!(house.comes().await, "nobody");
    assert!(speaks(&phone).await);
}

#[tokio::test]
async fn a_code_pairs_one_device_and_a_wrong_one_none() {
    let mut house = House::open().await;
    let (stranger, code) = (Key::new(), house.code());
    for wrong in ["", "aaaa", &"a".repeat(26), &"x".repeat(100_000)] {
        let answer = pairs(&stranger, &house, wrong).await;
        assert_eq!((answer, house.comes().await), (Some(Paired::WrongCode), "refused"), "{wrong:.9}");
    }
    let (phone, of) = Attached::pair(&house.device("phone"), &code, "phone").await.unwrap();
    assert_eq!((of.as_str(), house.comes().await), ("alice", "paired"));
    let used = Attached::pair(&house.device("tablet"), &code, "tablet").await.err().unwrap();
    assert!(used.message.contains("serves once"), "{used:?}");
    assert_eq!(house.comes().await, "nobody");
    assert!(!house.device("tablet").join("attached").exists());
    assert!(speaks(&phone).await);

    // A participant that shows another key is not spoken to, whatever is at its address.
    let other = House::open().await;
    let Code { participant, secret, .. } = house.code();
    let moved = Code { authority: other.door.address().to_string(), participant, secret };
    let refused = Attached::pair(&house.device("tablet"), &moved, "tablet").await.err().unwrap();
    assert_eq!(refused.exit, 3, "{refused:?}");
}

#[tokio::test]
async fn hostile_frames_end_a_connection_and_nothing_else() {
    let mut house = House::open().await;
    let phone = house.pair("phone").await;
    let long = [&u32::MAX.to_le_bytes()[..], &[0; 8192]].concat();
    let filled = [&[2, 0, 0, 0, b'"', b'"'][..], &[1; 8192]].concat();
    for bytes in [long, filled, [&9_u32.to_le_bytes()[..], &vec![b'{'; 8192]].concat()] {
        let mut stream = phone.connect().await.unwrap();
        assert_eq!(house.comes().await, "device");
        stream.write_all(&bytes).await.unwrap();
        assert!(!matches!(stream.read(&mut [0]).await, Ok(1..)));
        assert_eq!(house.comes().await, "left");
    }
    // One who is to be paired says one frame, and nothing that is none.
    let code = house.code();
    let mut stream = connect(&Key::new(), &house).await.unwrap();
    stream.write_all(&[0xff; 8192]).await.unwrap();
    assert!(!matches!(stream.read(&mut [0]).await, Ok(1..)));
    assert_eq!(house.comes().await, "nobody");
    drop(code);
    assert!(speaks(&phone).await);
}

/// Who keeps connections open and says nothing takes all seats of devices, and none of anybody else's.
#[tokio::test]
async fn there_are_so_many_seats_and_who_leaves_one_makes_room() {
    let mut house = House::open().await;
    let phone = house.pair("phone").await;
    let mut silent = Vec::new();
    for _ in 0..GUESTS_MAX {
        silent.push(TcpStream::connect(house.door.address()).await.unwrap());
    }
    let mut late = TcpStream::connect(house.door.address()).await.unwrap();
    assert!(!matches!(late.read(&mut [0]).await, Ok(1..)), "there is no seat");
    silent.clear();
    for _ in 0..GUESTS_MAX {
        assert_eq!(house.comes().await, "nobody");
    }
    assert!(speaks(&phone).await);
}

#[tokio::test]
async fn a_code_names_a_place_that_can_be_reached() {
    let home = tempfile::tempdir().unwrap();
    let devices = Arc::new(Devices::of(Path::new(home.path()), &[1; 32]));
    let door = Door::open(SocketAddr::from(([0, 0, 0, 0], 0)), devices).await.unwrap();
    assert!(door.code(None).err().unwrap().message.contains("--at"));
    assert!(door.code(Some("nowhere".to_owned())).err().unwrap().message.contains("host and port"));
    let (code, _) = door.code(Some("laptop.local:7371".to_owned())).unwrap();
    assert_eq!(Code::read(&code).unwrap().authority, "laptop.local:7371");
}
