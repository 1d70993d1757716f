//! Figure 10: how long a client waits for one element, over four links, by each engine and by downloading everything.

use core::time::Duration;
use std::time::Instant;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use pir_core::{Scheme, SealPir};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;

use super::Figure;
use super::chart::{self, Bar, Group, Groups, short};
use super::engines::{ELEMENT_BYTES, ENGINES, Elements, cores, power_of_two, progress_bar, runtime};
use super::table::Table;
use crate::cpu::timed;
use crate::engine::Engine;
use crate::serving::{Connection, Download, Kind, Server, verify};
use crate::shaping::{Link, Proxy};

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

/// What is retrieved, over which links, how often.
pub(super) struct Shaped {
    elements: Elements,
    links: Vec<(&'static str, Link)>,
    retrievals: u16,
}

/// Of one engine over one link; means over the retrievals.
pub(super) struct Response {
    /// From the wish for an element to the element.
    seconds: f64,
    /// CPU time of QUERY, ANSWER with EXPAND, and EXTRACT, milliseconds; none in a download.
    cpu_ms: Option<[f64; 3]>,
    /// Without the keys.
    sent: f64,
    received: f64,
    /// Bytes of the keys, and how long they took to upload, seconds.
    keys: Option<(usize, f64)>,
    /// Of an empty message, seconds.
    ping: f64,
    extrapolated: bool,
}

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

    let names: Vec<&str> = ENGINES.iter().map(|engine| engine.name).chain([NAIVE]).collect();
    let runtime = runtime()?;
    let progress = progress_bar(sizes.len() * names.len() * links.len());
    // By size, engine, link.
    let mut responses: Vec<Vec<Vec<Response>>> = Vec::new();
    for &n in sizes {
        let shaped = Shaped { elements: Elements::new(n), links: links.clone(), retrievals };
        let mut of_size = Vec::new();
        for engine in &ENGINES {
            progress.set_message(format!("figure 10: {}, n = {n}", engine.name));
            let context = || format!("{}, n = {n}", engine.name);
            of_size.push((engine.responses)(&runtime, &shaped, &progress).with_context(context)?);
        }
        progress.set_message(format!("figure 10: {NAIVE}, n = {n}"));
        of_size.push(runtime.block_on(download(&shaped, &progress)).context(NAIVE)?);
        responses.push(of_size);
    }
    progress.finish_and_clear();

    let mut table = Table::new("Figure 10: mean response time for one element", header());
    let mut panels = Vec::new();
    for (at, (name, link)) in links.iter().enumerate() {
        let megabits = link.bits_per_second / 1e6;
        let milliseconds = link.round_trip.as_secs_f64() * 1e3;
        let mut groups = Vec::new();
        for (n, of_size) in sizes.iter().zip(&responses) {
            let bar =
                |response: &Response| Bar { value: response.seconds, extrapolated: response.extrapolated };
            let bars = of_size.iter().map(|of_engine| Some(bar(&of_engine[at]))).collect();
            groups.push(Group { name: format!("n = {}", power_of_two(*n)), bars });
            for (engine, of_engine) in names.iter().zip(of_size) {
                table.row(row(&[name, &short(megabits), &short(milliseconds)], *n, engine, &of_engine[at]));
            }
        }
        let title = format!("{name}: {megabits} Mbit/s, round trip {milliseconds} ms; response time, s");
        panels.push(Groups { title, groups });
    }
    notes(&mut table, retrievals);
    let svg = chart::grouped_svg("Figure 10: response time, elements of 288 bytes", &names, &panels)?;
    let largest = sizes.len() - 1;
    let over = |link: usize| {
        let times = names.iter().zip(&responses[largest]);
        let times = times.map(|(name, of_engine)| format!("{name} {} s", short(of_engine[link].seconds)));
        times.collect::<Vec<_>>().join(", ")
    };
    let shows = format!(
        "How long a client waits for one element over links like the paper's. Where the network is fast, computing decides, \
         and where it is slow, the bytes. For one of {} elements over the fastest link: {}; over the slowest: {}.",
        sizes[largest],
        over(0),
        over(links.len() - 1)
    );
    Ok(Figure { table, svg, shows, differs: DIFFERS.to_owned() })
}

const DIFFERS: &str = "The paper draws this figure without printing its values, so there are none beside ours; it states \
    that SealPIR takes up to 42 % less time than XPIR over the slow links, and that copying everything wins within a data \
    center. Its clients and servers stood in data centers in the west of the US and in the south of India; here, both run \
    on one machine, with a proxy between them that delays and paces the bytes. So times contain neither the slow start nor \
    the losses of TCP over a long way, and everything shares this machine's cores. The paper's largest database, 2^22 \
    elements, is left out: its 1.2 GB take 5 GB prepared, and downloads of it would be extrapolated over all but the two \
    fastest links. Downloads are bare bytes over TCP, where the paper's scp encrypts them.";

fn header() -> Vec<&'static str> {
    vec![
        "link",
        "Mbit/s",
        "round trip, ms",
        "of an empty message, ms",
        "n",
        "engine",
        "response, s",
        "QUERY, ms",
        "EXPAND and ANSWER, ms",
        "EXTRACT, ms",
        "sent, KB",
        "received, KB",
        "keys, once, KB",
        "upload of keys, s",
        "measured",
    ]
}

fn row(link: &[&str; 3], n: usize, engine: &str, response: &Response) -> Vec<String> {
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), short);
    let mut cells: Vec<String> = link.iter().map(|cell| (*cell).to_owned()).collect();
    cells.extend([short(response.ping * 1e3), n.to_string(), engine.to_owned(), short(response.seconds)]);
    cells.extend((0..3).map(|i| shown(response.cpu_ms.map(|times| times[i]))));
    cells.extend([response.sent, response.received].map(|bytes| short(bytes / 1024.0)));
    cells.push(shown(response.keys.map(|(bytes, _)| bytes as f64 / 1024.0)));
    cells.push(shown(response.keys.map(|(_, time)| time)));
    cells.push(if response.extrapolated { "extrapolated" } else { "whole" }.to_owned());
    cells
}

fn notes(table: &mut Table, retrievals: u16) {
    table.note(format!(
        "Elements of {ELEMENT_BYTES} bytes. Real sockets, and a proxy between client and server that paces each direction to \
         the rate and delays it by half the round trip. Response: means of {retrievals} retrievals of different elements, one \
         after the other on one connection, from the wish for an element to its bytes, which are compared; keys are \
         uploaded before. A download is made once. KB are 1,024 bytes, as sent over the socket; QUERY, EXPAND and ANSWER, \
         and EXTRACT are CPU times; one thread computes an answer."
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

/// One engine over every link.
pub(super) fn measure<S: Engine>(
    runtime: &Runtime,
    shaped: &Shaped,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Response>> {
    let parameters = S::parameters_to_measure(shaped.elements.count, ELEMENT_BYTES)?;
    runtime.block_on(async {
        let server = Server::<S>::start(&parameters, shaped.elements.bytes.clone(), cores()).await?;
        let mut responses = Vec::new();
        for (_, link) in &shaped.links {
            let proxy = Proxy::start(*link, server.address).await?;
            responses.push(retrieve::<S>(&server, &proxy, &parameters, shaped).await?);
            progress.inc(1);
        }
        Ok(responses)
    })
}

/// Several retrievals, one after the other.
async fn retrieve<S: Engine>(
    server: &Server<S>,
    proxy: &Proxy,
    parameters: &S::Parameters,
    shaped: &Shaped,
) -> anyhow::Result<Response> {
    let Shaped { elements, retrievals, .. } = shaped;
    let mut rng = StdRng::seed_from_u64(1);
    let key = S::client_key(&rng.random());
    let mut connection = Connection::open(proxy.address).await?;
    let ping = ping(&mut connection).await?;
    let keys = S::encode_public_keys(&key);
    let start = Instant::now();
    connection.call(Kind::Keys, &keys).await?;
    let keys = (keys.len(), start.elapsed().as_secs_f64());

    let (sent, received, answering) = (connection.sent, connection.received, server.answering_ms());
    let (mut seconds, mut query_ms, mut extract_ms) = (0.0, 0.0, 0.0);
    for _ in 0..*retrievals {
        let index = rng.random_range(0..elements.count);
        let start = Instant::now();
        let (query, time) = timed(|| S::queries(&key, &[(parameters, index)], &mut rng));
        query_ms += time;
        let query = query?.pop().context("one query")?;
        let answer = connection.call(Kind::Query, &query).await?;
        let (element, time) = timed(|| S::extract(parameters, &key, index, &answer));
        extract_ms += time;
        seconds += start.elapsed().as_secs_f64();
        verify(&elements.bytes, index, &element?)?;
    }
    let mean = |sum: f64| sum / f64::from(*retrievals);
    Ok(Response {
        seconds: mean(seconds),
        cpu_ms: Some([query_ms, server.answering_ms() - answering, extract_ms].map(mean)),
        sent: mean((connection.sent - sent) as f64),
        received: mean((connection.received - received) as f64),
        keys: Some(keys),
        ping,
        extrapolated: false,
    })
}

/// Seconds that the fastest of a few empty messages takes.
async fn ping(connection: &mut Connection) -> anyhow::Result<f64> {
    let mut fastest = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        connection.call(Kind::Ping, &[]).await?;
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    Ok(fastest)
}

/// The whole database, over every link. Any engine's server sends it.
async fn download(shaped: &Shaped, progress: &ProgressBar) -> anyhow::Result<Vec<Response>> {
    let elements = &shaped.elements.bytes;
    let parameters = SealPir::parameters(shaped.elements.count, ELEMENT_BYTES)?;
    let server = Server::<SealPir>::start(&parameters, elements.clone(), 1).await?;
    let mut responses = Vec::new();
    for (_, link) in &shaped.links {
        let proxy = Proxy::start(*link, server.address).await?;
        let mut connection = Connection::open(proxy.address).await?;
        let ping = ping(&mut connection).await?;
        let (sent, received) = (connection.sent, connection.received);
        let length = sample(elements.len(), link);
        let Download { first, all } = connection.download(&elements[..length]).await?;
        responses.push(Response {
            seconds: whole(first, all, length, elements.len()),
            cpu_ms: None,
            sent: (connection.sent - sent) as f64,
            received: (connection.received - received + elements.len() - length) as f64,
            keys: None,
            ping,
            extrapolated: length < elements.len(),
        });
        progress.inc(1);
    }
    Ok(responses)
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
