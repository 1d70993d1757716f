//! What an operator uses: the commands of the program, and what it tells of itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use crate::support::{self, Member, deposit, refusal};
use sotto_wire::{Refused, Token};
use sottod::Status;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sottod");

/// The answer to a request, head and body.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

pub(super) fn get(address: SocketAddr, path: &str) -> (String, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_measured_is_what_happened_and_names_nobody() {
    let server = support::server(|config| config.operations = Some(([127, 0, 0, 1], 0).into()));
    let operations = server.operations_addr().unwrap();
    let mut member = Member::register(&server, 1).await;
    let mut events = member.watch().await;
    let round = events.fresh().await;
    member.deposit(round, &deposit(1, 2)).await.unwrap();
    let other = member.deposit(round, &deposit(1, 3)).await.unwrap_err();
    assert_eq!(refusal(&other), Refused::Quota);
    events.ready_of(round).await;

    let (head, metrics) = get(operations, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("openmetrics-text"), "{head}");
    for line in [
        "sottod_deposits_total 1",
        "sottod_participants 1",
        "sottod_sessions 1",
        "sottod_calls_total{call=\"deposit\",outcome=\"ok\"} 1",
        "sottod_calls_total{call=\"deposit\",outcome=\"quota\"} 1",
        "sottod_calls_total{call=\"register\",outcome=\"ok\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}:\n{metrics}");
    }
    for (name, least) in [
        ("sottod_rounds_total{outcome=\"ready\"} ", 1.0),
        ("sottod_round_phase_seconds_sum{phase=\"open\"} ", 0.2),
        ("sottod_setup_seconds_count ", 1.0),
        ("sottod_append_seconds_count ", 1.0),
        ("sottod_bytes_total{direction=\"received\"} ", 304.0),
        ("sottod_resident_memory_bytes ", 1e6),
    ] {
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        assert!(value.parse::<f64>().unwrap() >= least, "{name}{value}");
    }
    let key = server.parameters().manifest_key;
    let account = ed25519_dalek::SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes();
    for secret in [account.as_slice(), &key] {
        let hex = data_encoding::HEXLOWER.encode(secret);
        assert!(!metrics.to_lowercase().contains(&hex));
    }

    let status: Status = serde_json::from_str(&get(operations, "/status").1).unwrap();
    assert!(status.serving && status.open_round > round.0 && status.participants == 1, "{status:?}");
    assert_eq!(get(operations, "/health").1, "serving\n");
    assert_eq!(get(operations, "/live").1, "live\n");
    assert_eq!(get(operations, "/ready").1, "ready\n");
    assert!(status.ready && status.node.is_none() && status.peer_certificate_days.is_none(), "{status:?}");
    let served = status.rounds.iter().find(|status| status.round == round.0);
    assert!(served.is_some_and(|round| round.served && round.deposits == 1), "{status:?}");
    let (head, page) = get(operations, "/");
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("content-security-policy: default-src 'none';"),
        "{head}"
    );
    assert!(page.contains("serves rounds") && page.contains("Queues") && !page.contains("<script"), "{page}");
    for secret in [account.as_slice(), &key] {
        let hex = data_encoding::HEXLOWER.encode(secret);
        assert!(!page.to_lowercase().contains(&hex));
    }
    assert!(get(operations, "/anything").0.starts_with("HTTP/1.1 404 "));
    assert!(
        ask(operations, "POST /metrics HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").0.contains(" 405 ")
    );
    let long = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(64 << 10));
    let mut stream = TcpStream::connect(operations).unwrap();
    let _ = stream.write_all(long.as_bytes());
    assert_eq!(get(operations, "/health").1, "serving\n");

    let channel = tonic::transport::Channel::from_shared(format!("http://{}", server.local_addr())).unwrap();
    let mut health = HealthClient::new(channel.connect().await.unwrap());
    for service in ["", "sotto.v1.Sotto"] {
        let answer = health.check(HealthCheckRequest { service: service.to_owned() }).await.unwrap();
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
    }
    server.shutdown().await.unwrap();
}

fn run(arguments: &[&str], data: &Path) -> Output {
    Command::new(PROGRAM)
        .env("SOTTOD_ROUNDS_SEED_SEGMENTS", "4")
        .args(arguments)
        .arg("--data")
        .arg(data)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A server in a process, ended when it is dropped.
struct Serving {
    child: Child,
    /// Held open: a server that cannot print ends.
    _output: BufReader<ChildStdout>,
    address: String,
}

impl Serving {
    fn start(data: &Path, variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(PROGRAM)
            .env("SOTTOD_ROUNDS_SEED_SEGMENTS", "4")
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect(&line).to_owned();
        Self { child, _output: output, address }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn new_cluster(out: &Path, arguments: &[&str]) -> Output {
    Command::new(PROGRAM)
        .env("SOTTOD_ROUNDS_SEED_SEGMENTS", "4")
        .args(["cluster", "new", "--out"])
        .arg(out)
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn from_nothing_to_the_nodes_of_a_cluster_by_the_commands_alone() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("cluster");
    let three = ["--node", "a.example.org", "--node", "b.example.org:9", "--node", "::1"];
    for wrong in [&three[..4], &["--node", "a", "--public", "a:1", "--public", "b:1"], &["--node", "a b"]] {
        let refused = new_cluster(&out, wrong);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}: {}", said(&refused));
    }
    let twice = new_cluster(&out, &["--node", "a", "--node", "b", "--node", "a"]);
    assert!(twice.status.code() == Some(2) && said(&twice).contains("same address"), "{}", said(&twice));
    assert!(!out.exists());

    let made = new_cluster(&out, &three);
    assert!(made.status.success(), "{}", said(&made));
    let address = std::fs::read_to_string(out.join("address")).unwrap();
    assert!(address.starts_with("sotto://a.example.org:7370,b.example.org:7370,[::1]:7370/"), "{address}");
    let text = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert!(text("node2/sottod.toml").contains("\npublic = \"b.example.org:7370\"\n"));
    assert!(text("node2/sottod.toml").contains("\npeers = \"0.0.0.0:9\"\n"));
    assert!(text("node3/sottod.toml").contains("\npublic = \"[::1]:7370\"\n"));
    assert!(text("node3/sottod.toml").contains("\npeers = \"0.0.0.0:7372\"\n"));
    let listed = ["a.example.org:7372", "b.example.org:9", "[::1]:7372"];
    assert!(listed.iter().all(|node| text("node1/cluster").contains(node)), "{}", text("node1/cluster"));

    // Whoever starts containers asks every time; a person who asks twice is mistaken.
    let again = new_cluster(&out, &three);
    assert!(again.status.code() == Some(1) && said(&again).contains("--if-missing"), "{}", said(&again));
    let found = new_cluster(&out, &[&three[..], &["--if-missing"]].concat());
    assert!(found.status.success() && said(&found).contains(address.trim()), "{}", said(&found));
    let another = new_cluster(&out, &["--node", "x.example.org", "--if-missing"]);
    assert!(another.status.code() == Some(1) && said(&another).contains("another"), "{}", said(&another));
    assert_eq!(text("address"), address);

    // One that has never run may have voted since.
    let saved = directory.path().join("node1.tar");
    let taken = run(&["backup", "--out", saved.to_str().unwrap()], &out.join("node1"));
    assert!(taken.status.success() && said(&taken).contains("a cluster of 3"), "{}", said(&taken));
    let refused = run(&["restore", "--from", saved.to_str().unwrap()], &directory.path().join("restored"));
    assert!(
        refused.status.code() == Some(1) && said(&refused).contains("never restored"),
        "{}",
        said(&refused)
    );

    // A node's directory is one to serve, and both its certificates are made anew with the root key that it has not.
    let alone = directory.path().join("alone");
    assert!(new_cluster(&alone, &["--node", "127.0.0.1"]).status.success());
    let node = alone.join("node1");
    let certificates = || ["node.pem", "peer.pem"].map(|name| std::fs::read(node.join(name)).unwrap());
    let before = certificates();
    assert_eq!(run(&["certify"], &node).status.code(), Some(1));
    let root = alone.join("root.key");
    let renewed = run(&["certify", "--root", root.to_str().unwrap()], &node);
    assert!(renewed.status.success(), "{}", said(&renewed));
    assert!(before.iter().zip(&certificates()).all(|(before, after)| before != after));
    let listen = format!("127.0.0.1:{}", free_port());
    let peers = format!("127.0.0.1:{}", free_port());
    let operations = format!("127.0.0.1:{}", free_port());
    let variables =
        [("SOTTOD_LISTEN", &*listen), ("SOTTOD_PEERS", &*peers), ("SOTTOD_OPERATIONS", &*operations)];
    let server = Serving::start(&node, &variables);
    let alone = run(&["transfer"], &node);
    assert_eq!(alone.status.code(), Some(1), "{}", said(&alone));
    assert!(server.address.starts_with("sotto://127.0.0.1:7370/"), "{}", server.address);
}

#[test]
fn from_nothing_to_a_server_with_tokens_by_the_commands_alone() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let port = free_port();
    let made = run(&["init", "--public", "chat.example.org:7370"], &data);
    assert!(made.status.success() && said(&made).contains("root.key"), "{}", said(&made));
    let again = run(&["init"], &data);
    assert!(again.status.code() == Some(1) && said(&again).contains("in use already"), "{}", said(&again));
    assert_eq!(run(&["init", "--public", "no port"], &directory.path().join("x")).status.code(), Some(2));

    let operations = format!("127.0.0.1:{port}");
    let server = Serving::start(&data, &[("SOTTOD_OPERATIONS", &operations)]);
    assert!(server.address.starts_with("sotto://chat.example.org:7370/"), "{}", server.address);
    // Until the first round is open.
    let status = (0..200).find_map(|_| {
        let status = run(&["status", "--json", "--operations", &operations], &data);
        std::thread::sleep(Duration::from_millis(50));
        status.status.success().then_some(status.stdout)
    });
    let status: Status = serde_json::from_slice(&status.expect("the server serves")).unwrap();
    assert!(status.address == server.address && status.token_required, "{status:?}");
    let tokens = run(&["token", "--count", "3"], &data);
    let tokens: Vec<Token> = said(&tokens).lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(tokens.len(), 3);

    let renewed = run(&["certify"], &data);
    assert!(renewed.status.success(), "{}", said(&renewed));
    drop(server);
    let gone = run(&["status", "--operations", &operations], &data);
    assert!(
        gone.status.code() == Some(1) && said(&gone).contains("is the server running"),
        "{}",
        said(&gone)
    );
    let again = Serving::start(&data, &[("SOTTOD_OPERATIONS", &operations)]);
    assert_eq!(again.address, status.address);
    drop(again);
    let checked = run(&["check-log"], &data);
    assert!(checked.status.success(), "{}", said(&checked));

    let settings = data.join("sottod.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text + "\nlimitless = true\n").unwrap();
    let refused = run(&["serve"], &data);
    assert!(refused.status.code() == Some(2) && said(&refused).contains("limitless"), "{}", said(&refused));
}

/// What stands in the log of a server is read by more people than the server.
#[tokio::test(flavor = "multi_thread")]
async fn at_its_usual_level_the_log_names_no_account_label_or_address() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(PROGRAM)
        .env("SOTTOD_ROUNDS_SEED_SEGMENTS", "4")
        .args([
            "serve",
            "--plaintext",
            "--listen",
            "127.0.0.1:0",
            "--retrieve",
            "1",
            "--round-ms",
            "400",
            "--data",
        ])
        .arg(directory.path().join("data"))
        .args(["--deposit-ms", "50", "--lookup-ms", "50", "--query-ms", "150"])
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let address: sotto_wire::Address = line.trim().strip_prefix("listening on ").unwrap().parse().unwrap();
    let server: SocketAddr = address.authority().parse().unwrap();

    let channel = tonic::transport::Channel::from_shared(format!("http://{server}")).unwrap();
    let mut client = sotto_wire::proto::sotto_client::SottoClient::new(channel.connect().await.unwrap());
    let request =
        sotto_wire::proto::InfoRequest { protocol_version: sotto_protocol::PROTOCOL_VERSION.into() };
    let info = client.info(request).await.unwrap().into_inner();
    let key = info.manifest_key[..].try_into().unwrap();
    let session = support::session(&mut client, &key, 9).await.unwrap();
    let mine = deposit(0xa7, 0xb8);
    let request = |round| sotto_wire::proto::DepositRequest {
        session: session.clone(),
        round,
        deposit: mine.encode().to_vec().into(),
    };
    for round in info.open_round..info.open_round + 8 {
        let _ = client.deposit(request(round)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Garbage, in a connection that the server gives up.
    let mut stream = TcpStream::connect(server).unwrap();
    let peer = stream.local_addr().unwrap();
    let _ = stream.write_all(&[0xff; 4096]);
    drop(stream);
    tokio::time::sleep(Duration::from_millis(300)).await;

    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(child.wait().unwrap().success() && log.contains("shutting down"), "{log}");
    let account = ed25519_dalek::SigningKey::from_bytes(&[9; 32]).verifying_key().to_bytes();
    for secret in [account.as_slice(), &session, &mine.label.0] {
        let lower = log.to_lowercase();
        for text in [
            data_encoding::HEXLOWER.encode(secret),
            data_encoding::BASE32_NOPAD.encode(secret).to_lowercase(),
            format!("{secret:?}"),
        ] {
            assert!(!lower.contains(&text), "{log}");
        }
    }
    assert!(!log.contains(&peer.port().to_string()) && !log.contains("127.0.0.1:"), "{log}");
}
