//! The demonstration from its first connection to its summary.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_protocol::{CodeShape, Round, ServerParameters};
use sotto_session::ConnectionSettings;
use sottod::{Config, Preference, Running, ServerEvent};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cast::{Cast, Happening};
use crate::crowd::Crowd;
use crate::options::Options;
use crate::report::Summary;
use crate::screen::Screen;
use crate::script::{self, Ledger, NAMES};

/// Rounds beyond those of the script in which a straggler may still arrive, before it counts as lost.
const PATIENCE_ROUNDS: u64 = 48;
/// Drawn seeds have 53 bits, so that every reader of JSON can hold them.
const SEED_SHIFT: u32 = 11;
/// How long everybody has for a look-up, and for building a query, at least, ms: all of them share this machine.
const LOOKUP_MS: u32 = 150;
const BUILD_MS: u32 = 100;
/// No round takes that long; then something is broken.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the demonstration; success means that every line arrived everywhere, unaltered and once.
///
/// # Errors
/// If the server cannot start, or anybody loses the connection.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    tokio::select! {
        code = Demonstration::new(options).run() => code,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("Ctrl-C cannot be listened for")?;
            anyhow::bail!("interrupted before the conversations had ended")
        }
    }
}

/// A server for six people at one machine.
fn config(retrieve: u16) -> anyhow::Result<Config> {
    let mut config = Config::closed_loop("127.0.0.1:0".parse()?);
    config.retrieve = retrieve;
    // At least as many as the server will choose.
    let buckets = 3 * retrieve;
    let shape = CodeShape { kind: config.code, retrieve, buckets, choices: config.choices };
    config.lookup_ms = LOOKUP_MS.max(ServerParameters::lookup_slot_ms(shape));
    config.query_ms = config.lookup_ms + BUILD_MS.max(ServerParameters::query_slot_ms(buckets));
    // When they have asked, nobody else will.
    config.limits.tile = NAMES.len();
    Ok(config)
}

struct Demonstration {
    options: Options,
    seed: u64,
    rng: ChaCha20Rng,
    screen: Screen,
    summary: Summary,
}

impl Demonstration {
    fn new(options: Options) -> Self {
        let seed =
            options.seed.unwrap_or_else(|| rand::make_rng::<rand::rngs::StdRng>().next_u64() >> SEED_SHIFT);
        Self {
            seed,
            rng: ChaCha20Rng::seed_from_u64(seed),
            screen: Screen::new(options.json),
            summary: Summary::default(),
            options,
        }
    }

    async fn run(mut self) -> anyhow::Result<ExitCode> {
        let started = Instant::now();
        let config = config(self.options.retrieve)?;
        let engine = self.options.engine.engine(Preference::default());
        let server = sottod::start(Arc::clone(&engine), config).context("the server cannot start")?;
        let mut events = server.events();
        let settings = ConnectionSettings::new(server.address().clone());
        self.screen.title(&self.options, self.seed, server.parameters());

        let (crowd, deposits) = self.gather_crowd(&settings).await?;
        let mut cast = Cast::enter(&settings, &mut self.rng, &self.screen).await?;
        let mut crowd = tokio::spawn(crowd.run());

        let ledger = self.converse(&mut cast, &mut events, &mut crowd, &deposits).await?;

        self.summary.elapsed = started.elapsed();
        self.close(server, cast, crowd).await?;
        let tally = ledger.tally();
        self.screen.missing(&ledger.missing());
        self.screen.summary(&self.summary.finish(&*engine, &self.options, self.seed, tally)?);
        anyhow::ensure!(!self.screen.is_closed(), "nobody takes the output any more");
        Ok(if tally.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn gather_crowd(
        &mut self,
        settings: &ConnectionSettings,
    ) -> anyhow::Result<(Crowd, Arc<AtomicU64>)> {
        let registered = Arc::new(AtomicU64::new(0));
        let gathering = Crowd::register(settings, self.options.users, &mut self.rng, Arc::clone(&registered));
        let crowd = self
            .screen
            .follow("simulated users join", self.options.users.into(), &registered, gathering)
            .await
            .context("the simulated users cannot join")?;
        let deposits = crowd.deposits();
        Ok((crowd, deposits))
    }

    /// Follows the rounds until the script has arrived, or is given up.
    async fn converse(
        &mut self,
        cast: &mut Cast,
        events: &mut tokio::sync::broadcast::Receiver<ServerEvent>,
        crowd: &mut JoinHandle<anyhow::Result<()>>,
        deposits: &AtomicU64,
    ) -> anyhow::Result<Ledger> {
        let lines = script::lines(self.options.rounds);
        let mut ledger = Ledger::new(lines.clone());
        let mut first_of_script: Option<Round> = None;
        let mut round = cast.joined();
        self.screen.opened(round, None, self.options.users.into(), 0);
        self.summary.opened(true);
        let mut news = Instant::now();
        // What people receive in a round is shown before the next round begins.
        let mut retrieving = false;
        loop {
            anyhow::ensure!(!self.screen.is_closed(), "nobody takes the output any more");
            if ledger.is_complete() && cast.reported(round) {
                return Ok(ledger);
            }
            tokio::select! {
                biased;
                happening = cast.next() => { news = Instant::now(); match happening? {
                    Happening::Text { listener, speaker, text } => {
                        let arrival = ledger.arrive(listener, &speaker, &text);
                        self.screen.arrival(listener, &speaker, &text, arrival);
                    }
                    Happening::Report(report) => {
                        self.screen.participant_done();
                        self.summary.add_report(&report);
                    }
                    Happening::Remark(remark) => self.screen.remark(&remark),
                } }
                event = events.recv(), if !retrieving || cast.reported(round) => { news = Instant::now(); match event? {
                    // The round that was open when everybody joined is announced already.
                    ServerEvent::RoundOpened { round: opened } if opened <= round => {}
                    ServerEvent::RoundOpened { round: opened } => {
                        round = opened;
                        retrieving = false;
                        let over = first_of_script
                            .is_some_and(|first| opened.0 > first.0 + u64::from(self.options.rounds) + PATIENCE_ROUNDS);
                        if over || opened.0 > PATIENCE_ROUNDS && first_of_script.is_none() {
                            return Ok(ledger);
                        }
                        let before = deposits.load(Ordering::Relaxed);
                        self.screen.opened(opened, first_of_script, self.options.users.into(), before);
                        self.summary.opened(first_of_script.is_none());
                    }
                    ServerEvent::RoundSealed { entries, .. } => {
                        self.screen.sealed(entries);
                        // Between two rounds' deposits, so that all first lines leave in the same round.
                        if first_of_script.is_none() && cast.is_introduced() {
                            cast.speak(&lines).await?;
                            first_of_script = Some(round.next());
                            self.screen.introduced();
                        }
                    }
                    ServerEvent::RoundBuilt { bucket_size, mapping_bytes, setup_ms, .. } => {
                        retrieving = true;
                        self.screen.built(bucket_size, mapping_bytes, setup_ms);
                        self.summary.built(bucket_size, setup_ms);
                    }
                    _ => {}
                } }
                ended = &mut *crowd => {
                    ended?.context("the simulated users have lost the server")?;
                    anyhow::bail!("the server has ended");
                }
                () = self.screen.tick(deposits) => {
                    anyhow::ensure!(news.elapsed() < PATIENCE, "nothing has happened for two minutes");
                }
            }
        }
    }

    async fn close(
        &mut self,
        server: Running,
        cast: Cast,
        crowd: JoinHandle<anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        crowd.abort();
        cast.leave().await;
        server.shutdown().await.context("the server did not end cleanly")
    }
}
