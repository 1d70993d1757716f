//! Figure 10: how long a client waits for one element, over four links, by each engine and by downloading everything.

use core::net::Ipv4Addr;
use core::time::Duration;
use std::time::Instant;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use sotto_closed_loop::{Orders, Point, System, Took, Turns};
use sotto_measuring::engine::EngineName;
use sotto_measuring::progress;
use sotto_measuring::proxy::{Link, Proxy};
use sotto_measuring::table::{Column, Table, short, short_or_none};
use sotto_session::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::chart::{Bar, Bars, bars};
use super::engines::{ELEMENT_BYTES, ENGINES, ensure_right, orders, power_of_two, runtime};
use super::section::Figure;

/// The paper's links: names and rates in bits per second.
const LINKS: [(&str, f64); 4] =
    [("intra-DC", 3.4e9), ("inter-DC", 800e6), ("home network", 20e6), ("mobile network", 10e6)];

/// Round trips in milliseconds, which the paper does not give.
pub(super) const ROUND_TRIPS_MS: [f64; 4] = [0.5, 220.0, 220.0, 220.0];

/// A download that takes longer is extrapolated from its beginning.
const LONGEST_DOWNLOAD: Duration = Duration::from_secs(60);
/// So much of its beginning is waited for.
const SAMPLE: Duration = Duration::from_secs(10);

const NAIVE: &str = "naive download";

/// Of one engine over one link; means over the retrievals.
struct Response {
    link: (&'static str, Link),
    n: usize,
    engine: &'static str,
    /// From the wish for an element to the element.
    seconds: f64,
    /// CPU time of QUERY, ANSWER with EXPAND, and EXTRACT, milliseconds; none in a download.
    cpu_ms: Option<[f64; 3]>,
    /// Without the keys, bytes.
    sent: f64,
    received: f64,
    /// Bytes of the keys, and how long they took to upload, seconds.
    keys: Option<(usize, f64)>,
    /// Of a call that carries next to nothing, seconds.
    ping: f64,
    extrapolated: bool,
}

const COLUMNS: [Column<Response>; 15] = [
    ("link", |of| of.link.0.to_owned()),
    ("Mbit/s", |of| short(of.link.1.bits_per_second / 1e6)),
    ("round trip, ms", |of| short(of.link.1.round_trip.as_secs_f64() * 1e3)),
    ("of an empty message, ms", |of| short(of.ping * 1e3)),
    ("n", |of| of.n.to_string()),
    ("engine", |of| of.engine.to_owned()),
    ("response, s", |of| short(of.seconds)),
    ("QUERY, ms", |of| short_or_none(of.cpu_ms.map(|times| times[0]))),
    ("EXPAND and ANSWER, ms", |of| short_or_none(of.cpu_ms.map(|times| times[1]))),
    ("EXTRACT, ms", |of| short_or_none(of.cpu_ms.map(|times| times[2]))),
    ("sent, KB", |of| short(of.sent / 1024.0)),
    ("received, KB", |of| short(of.received / 1024.0)),
    ("keys, once, KB", |of| short_or_none(of.keys.map(|(bytes, _)| bytes as f64 / 1024.0))),
    ("upload of keys, s", |of| short_or_none(of.keys.map(|(_, time)| time))),
    ("measured", |of| if of.extrapolated { "extrapolated" } else { "whole" }.to_owned()),
];

pub(super) fn make(quick: bool, round_trips_ms: &[f64]) -> anyhow::Result<Figure> {
    let known = |time: &f64| time.is_finite() && (0.0..=60_000.0).contains(time);
    ensure!(
        round_trips_ms.len() == LINKS.len() && round_trips_ms.iter().all(known),
        "--rtt-ms takes four round-trip times between 0 and 60000 milliseconds, separated by commas"
    );
    let links = LINKS.iter().zip(round_trips_ms).map(|((name, bits_per_second), time)| {
        let round_trip = Duration::from_secs_f64(time / 1e3);
        (*name, Link { bits_per_second: *bits_per_second, round_trip })
    });
    let mut links: Vec<_> = links.collect();
    let (sizes, retrievals): (&[usize], u16) =
        if quick { (&[1 << 10, 1 << 12], 2) } else { (&[1 << 16, 1 << 18, 1 << 20], 5) };
    if quick {
        links = vec![links[0], links[3]];
    }

    let names: Vec<&str> = ENGINES.iter().map(|(name, _)| *name).chain([NAIVE]).collect();
    let runtime = runtime()?;
    let progress = progress::bar(0, "");
    let mut responses: Vec<Response> = Vec::new();
    for &n in sizes {
        for (name, engine) in ENGINES {
            progress.set_message(format!("figure 10: {name}, n = {n}"));
            let of_engine = runtime.block_on(retrieve((name, engine), n, &links, retrievals, &progress));
            responses.extend(of_engine.with_context(|| format!("{name}, n = {n}"))?);
        }
        progress.set_message(format!("figure 10: {NAIVE}, n = {n}"));
        for link in &links {
            responses.push(runtime.block_on(download(*link, n)).context(NAIVE)?);
        }
    }
    progress.finish_and_clear();

    // By link, size and engine.
    let place = |of: &Response| links.iter().position(|(name, _)| *name == of.link.0);
    responses.sort_by_key(|of| (place(of), of.n));
    let mut table = Table::of("Figure 10: mean response time for one element", &COLUMNS, &responses);
    notes(&mut table, retrievals);
    let bar = |of: &Response| Some(Bar { value: of.seconds, extrapolated: of.extrapolated });
    let group =
        |of: &[Response]| (format!("n = {}", power_of_two(of[0].n)), of.iter().map(bar).collect::<Vec<_>>());
    let panel = |of_link: &[Response]| {
        let (name, Link { bits_per_second, round_trip }) = of_link[0].link;
        let (megabits, milliseconds) = (bits_per_second / 1e6, round_trip.as_secs_f64() * 1e3);
        let title = format!("{name}: {megabits} Mbit/s, round trip {milliseconds} ms; response time, s");
        Bars { title, groups: of_link.chunks(names.len()).map(group).collect() }
    };
    let of_link: Vec<&[Response]> = responses.chunks(sizes.len() * names.len()).collect();
    let panels: Vec<Bars> = of_link.iter().map(|of_link| panel(of_link)).collect();
    let svg = bars("Figure 10: response time, elements of 288 bytes", &names, &panels)?;
    let largest = |of_link: &[Response]| {
        let times = of_link[of_link.len() - names.len()..].iter();
        let times = times.map(|of| format!("{} {} s", of.engine, short(of.seconds)));
        times.collect::<Vec<_>>().join(", ")
    };
    let shows = format!(
        "How long a client waits for one element over links like the paper's. Where the network is fast, computing decides, \
         and where it is slow, the bytes. For one of {} elements over the fastest link: {}; over the slowest: {}.",
        sizes[sizes.len() - 1],
        largest(of_link[0]),
        largest(of_link[of_link.len() - 1])
    );
    Ok(Figure { table, svg, shows, differs: DIFFERS.to_owned() })
}

const DIFFERS: &str = "The paper draws this figure without printing its values, so there are none beside ours; it states \
    that SealPIR takes up to 42 % less time than XPIR over the slow links, and that copying everything wins within a data \
    center. Its clients and servers stood in data centers in the west of the US and in the south of India; here, both run \
    on one machine, with a proxy between them that delays and paces the bytes. So times contain neither the slow start nor \
    the losses of TCP over a long way, and everything shares this machine's cores. Server and clients are those of the chat, \
    with TLS, HTTP/2 and its windows; a database that is asked for one element in a round has longer answers than a bucket \
    (figure 9), which cost the server less. They speak to no engine below 128 bits of security but in measurements such as this \
    one. The paper's largest database, 2^22 \
    elements, is left out: its 1.2 GB take 5 GB prepared, and downloads of it would be extrapolated over all but the two \
    fastest links. Downloads are bare bytes over TCP, where the paper's scp encrypts them.";

fn notes(table: &mut Table, retrievals: u16) {
    table.note(format!(
        "Elements of {ELEMENT_BYTES} bytes. A real server in a process of its own, and a proxy between client and server that \
         paces each direction to the rate and delays it by half the round trip. Response: means of {retrievals} retrievals of \
         different elements, one after the other, each by another client in one round, from the wish for an element to its \
         bytes, which are compared; deposits, the mapping and the keys come before. A download is made once. KB are 1,024 \
         bytes, as sent over the socket; QUERY, EXPAND and ANSWER, and EXTRACT are CPU times, ANSWER the mean over all links; \
         one thread computes an answer. The empty message is a server's announcement of itself, or a byte."
    ));
    table.note(format!(
        "A download that would take more than {} s is measured for {} s and extrapolated at the rate that it then had.",
        LONGEST_DOWNLOAD.as_secs(),
        SAMPLE.as_secs()
    ));
    table.note(
        "The paper gives rates but no round trips. 0.5 ms is usual within a data center. From the west of the US to the \
         south of India it is about 14,000 km, there and back 140 ms at the speed of light in glass, and cables are half \
         as long again or more: 220 ms. `--rtt-ms` sets others. The round trip of an empty message shows what the proxy \
         and its timers add."
            .to_owned(),
    );
}

/// What `retrievals` clients behind every link get from one server, one after the other.
async fn retrieve(
    (name, engine): (&'static str, EngineName),
    n: usize,
    links: &[(&'static str, Link)],
    retrievals: u16,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Response>> {
    let clients = links.len() as u32 * u32::from(retrievals);
    // Nobody waits for others that would be answered with him.
    let mut system = System::start(Orders { tile: 1, ..orders(engine, n, clients)? }).await?;
    progress.set_length(progress.length().unwrap_or(0) + 2 * u64::from(clients));
    let mut pings = Vec::new();
    for (_, link) in links {
        let proxy = system.proxy(Some(*link)).await?;
        pings.push(ping(&Connection::open(&system.settings(&proxy)?).await?).await?);
        // Each has a link of its own, so that bytes are counted one by one.
        for _ in 0..retrievals {
            let proxy = system.proxy(Some(*link)).await?;
            system.enter(1, &proxy, progress).await?;
        }
    }
    let (round, took) = system.play(Turns::one_by_one(clients as usize), progress).await?;
    let served = system.server.now().await?.spent - system.server.point(round.0, Point::Built)?;
    // All answers are computed by the same server, from the same database.
    let answer_ms = served.stages.total() / f64::from(clients);
    let of_link = took.chunks(retrievals.into()).zip(system.clients.chunks(retrievals.into()));
    let mut responses = Vec::new();
    for ((link, ping), (took, clients)) in links.iter().zip(pings).zip(of_link) {
        ensure_right(took)?;
        let mean = |of: fn(&Took) -> f64| took.iter().map(of).sum::<f64>() / f64::from(retrievals);
        let upload = clients.iter().map(|client| client.upload.as_secs_f64()).sum::<f64>();
        responses.push(Response {
            link: *link,
            n,
            engine: name,
            seconds: mean(|took| took.response.as_secs_f64()),
            cpu_ms: Some([mean(|took| took.query_cpu_ms), answer_ms, mean(|took| took.extract_cpu_ms)]),
            sent: mean(|took| took.traffic.up as f64),
            received: mean(|took| took.traffic.down as f64),
            keys: Some((clients[0].keys.len(), upload / f64::from(retrievals))),
            ping,
            extrapolated: false,
        });
    }
    Ok(responses)
}

/// The whole database, as bare bytes: no call of a server gives out as much as the largest has.
async fn download(link: (&'static str, Link), n: usize) -> anyhow::Result<Response> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let proxy = Proxy::start(Some(link.1), listener.local_addr()?).await?;
    let bytes = n * ELEMENT_BYTES;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // What is next to nothing, and then everything.
        let byte = stream.read_u8().await?;
        stream.write_u8(byte).await?;
        stream.read_u8().await?;
        let piece = vec![7; 1 << 18];
        for start in (0..bytes).step_by(piece.len()) {
            stream.write_all(&piece[..piece.len().min(bytes - start)]).await?;
        }
        std::io::Result::Ok(())
    });
    let mut stream = TcpStream::connect(proxy.address).await?;
    stream.set_nodelay(true)?;
    let start = Instant::now();
    stream.write_u8(0).await?;
    stream.read_u8().await?;
    let (ping, some) = (start.elapsed().as_secs_f64(), sample(bytes, &link.1));
    let start = Instant::now();
    stream.write_u8(0).await?;
    let (mut buffer, mut received, mut first) = (vec![0; 1 << 18], 0, None);
    while received < some {
        let length = stream.read(&mut buffer).await?;
        ensure!(length > 0, "a download that ends before its end");
        first.get_or_insert_with(|| start.elapsed());
        received += length;
    }
    let (first, all) = (first.unwrap_or_default(), start.elapsed());
    // Of a sample, the rest is not waited for.
    server.abort();
    Ok(Response {
        link,
        n,
        engine: NAIVE,
        seconds: whole(first, all, received, bytes),
        cpu_ms: None,
        sent: 1.0,
        received: bytes as f64,
        keys: None,
        ping,
        extrapolated: received < bytes,
    })
}

/// Seconds that the fastest of a few calls takes that carry next to nothing.
async fn ping(connection: &Connection) -> anyhow::Result<f64> {
    let mut fastest = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        connection.info().await?;
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    Ok(fastest)
}

/// How many bytes to download: all, if that does not take too long.
fn sample(bytes: usize, link: &Link) -> usize {
    let per_second = link.bits_per_second / 8.0;
    if bytes as f64 / per_second > LONGEST_DOWNLOAD.as_secs_f64() {
        (per_second * SAMPLE.as_secs_f64()) as usize
    } else {
        bytes
    }
}

/// Seconds for all bytes, at the rate at which some came after the first.
fn whole(first: Duration, all: Duration, some: usize, bytes: usize) -> f64 {
    let share = bytes as f64 / some as f64;
    first.as_secs_f64() + (all - first).as_secs_f64() * share
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{Link, sample, whole};

    /// What was not waited for must come out as if it had been; the wait for the first byte happens once.
    #[test]
    fn a_long_download_is_extrapolated_from_its_beginning() {
        let link = |bits_per_second| Link { bits_per_second, round_trip: Duration::from_millis(220) };
        let bytes = 302_000_000;
        assert_eq!(sample(bytes, &link(10e6)), 12_500_000);
        assert_eq!(sample(bytes, &link(800e6)), bytes);
        let (first, all) = (Duration::from_millis(220), Duration::from_millis(10_220));
        assert!((whole(first, all, 12_500_000, bytes) - (0.22 + 241.6)).abs() < 1e-9);
        assert!((whole(first, all, bytes, bytes) - 10.22).abs() < 1e-9);
    }
}
