//! A server in a process of its own, the simulated users of its rounds, and the real clients that take part in them.

use core::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use mpir::Engines;
use rand::rngs::StdRng;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use sha2::{Digest, Sha256};
use sotto_measuring::proxy::{Link, Proxy};
use sotto_protocol::table::{KNOCK_BYTES, stored};
use sotto_protocol::{Deposit, Round, cover};
use sotto_session::ConnectionSettings;
use sotto_wire::{Address, Host};
use sottod::Population;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::child::ServerProcess;
use crate::client::{Client, PATIENCE, Took};
use crate::lines::Orders;
use crate::turns::Turns;

/// Clients that connect at a time.
const ENTERING: usize = 8;

/// A server, and the clients that have entered so far.
pub struct System {
    /// From outside.
    pub server: ServerProcess,
    /// By their numbers.
    pub clients: Vec<Client>,
    orders: Orders,
    address: Address,
}

impl System {
    /// A server that listens, and no client yet.
    ///
    /// # Errors
    /// If the server cannot be started or does not listen.
    pub async fn start(orders: Orders) -> anyhow::Result<Self> {
        let server = ServerProcess::start(&orders).await?;
        let address = server.address.parse()?;
        Ok(Self { server, clients: Vec::new(), orders, address })
    }

    /// What passes on all the bytes of some clients, over links of this kind if one is given.
    ///
    /// # Errors
    /// If it cannot listen.
    pub async fn proxy(&self, link: Option<Link>) -> anyhow::Result<Arc<Proxy>> {
        let behind: SocketAddr = self.address.authority().parse()?;
        Ok(Arc::new(Proxy::start(link, behind).await.context("the proxy cannot listen")?))
    }

    /// How clients behind a proxy connect.
    ///
    /// # Errors
    /// If the server has no address on this machine.
    pub fn settings(&self, proxy: &Proxy) -> anyhow::Result<ConnectionSettings> {
        let (at, host) = (proxy.address, Host::Ip(proxy.address.ip()));
        let address = Address::new(self.address.transport(), host, at.port(), *self.address.root_key())?;
        let engine = self.orders.engine;
        Ok(ConnectionSettings {
            engines: Engines::only(engine.engine()),
            // What is too weak for people may be measured.
            allow_no_privacy: engine.is_insecure(),
            // Everybody's answers are computed at the same time.
            transfer_timeout: PATIENCE,
            call_timeout: PATIENCE,
            ..ConnectionSettings::new(address)
        })
    }

    /// So many more clients connect and register, a few at a time.
    ///
    /// # Errors
    /// If one of them cannot.
    pub async fn enter(
        &mut self,
        count: u32,
        proxy: &Arc<Proxy>,
        progress: &ProgressBar,
    ) -> anyhow::Result<()> {
        let (places, settings) = (Arc::new(Semaphore::new(ENTERING)), self.settings(proxy)?);
        let mut entering = JoinSet::new();
        let first = self.clients.len() as u32;
        for number in first..first + count {
            let (places, settings, proxy) = (Arc::clone(&places), settings.clone(), Arc::clone(proxy));
            let (engine, seed) = (self.orders.engine, self.orders.derive("client", Round(0), number));
            entering.spawn(async move {
                let _place = places.acquire().await?;
                anyhow::Ok((number, Client::enter(&settings, engine, proxy, seed).await?))
            });
        }
        let mut clients = Vec::new();
        while let Some(entered) = entering.join_next().await {
            clients.push(entered?.context("a client cannot enter")?);
            progress.inc(1);
        }
        clients.sort_by_key(|(number, _)| *number);
        self.clients.extend(clients.into_iter().map(|(_, client)| client));
        Ok(())
    }

    /// One round of all clients, and what each of them had of it.
    ///
    /// # Errors
    /// If a client or the server cannot go on.
    pub async fn play(&mut self, turns: Turns, progress: &ProgressBar) -> anyhow::Result<(Round, Vec<Took>)> {
        let (orders, turns) = (Arc::new(self.orders.clone()), Arc::new(turns));
        let slots: Arc<[Option<u32>]> = self.clients.iter().map(|client| client.slot).collect();
        let mut playing = JoinSet::new();
        for (number, mut client) in (0..).zip(self.clients.drain(..)) {
            let (orders, turns, slots) = (Arc::clone(&orders), Arc::clone(&turns), Arc::clone(&slots));
            playing.spawn(async move {
                let round = client.opened().await?;
                let (deposit, wanted) = (orders.deposit(round, number), orders.wanted(round, number, &slots));
                let took = client.take_part(round, &deposit, wanted, &turns).await?;
                anyhow::Ok((number, client, round, took))
            });
        }
        let mut played = Vec::new();
        loop {
            tokio::select! {
                done = playing.join_next() => match done {
                    Some(done) => played.push(done?.context("a client cannot go on")?),
                    None => break,
                },
                // Who waits for a server that has failed, or for a round that is over, would wait for ever.
                refused = self.server.ended() => return Err(refused),
            }
            progress.inc(1);
        }
        played.sort_by_key(|(number, ..)| *number);
        let round = played.first().map(|(_, _, round, _)| *round).context("a round without clients")?;
        ensure!(played.iter().all(|(_, _, other, _)| *other == round), "clients are in different rounds");
        let mut all = Vec::new();
        for (_, client, _, took) in played {
            self.clients.push(client);
            all.push(took);
        }
        Ok((round, all))
    }
}

impl Orders {
    pub(crate) const fn population(&self) -> Population {
        Population { users: self.users, seed: self.seed }
    }

    /// What a client hands in: sealed as every message is, under keys that follow from the seed, so that the client it is
    /// for can say what it must get.
    fn deposit(&self, round: Round, client: u32) -> Deposit {
        cover(round, &mut StdRng::from_seed(self.derive("deposit", round, client)))
    }

    /// What a client is to find in a round: the message of the client before it, and those of simulated users. On a server with
    /// slots, which are those of the clients by number, the labels tell slots. Where queries stand, they are the same people's in all
    /// rounds of an epoch.
    fn wanted(&self, round: Round, client: u32, slots: &[Option<u32>]) -> Vec<Deposit> {
        let epoch = self.code.kind().map_or(round, |kind| kind.epoch(round));
        let mut rng = StdRng::from_seed(self.derive("wanted", epoch, client));
        let (sender, population) = ((client + self.clients - 1) % self.clients, self.population());
        let others = sample(&mut rng, population.users as usize, usize::from(self.retrieve) - 1);
        let told = |deposit: Deposit, slot: Option<u32>| match slot {
            Some(slot) => Deposit { label: stored(slot, &[0; KNOCK_BYTES]), ..deposit },
            None => deposit,
        };
        let slot = slots.get(sender as usize).copied().flatten();
        let mut wanted = vec![told(self.deposit(round, sender), slot)];
        let simulated = |user: usize| {
            let user = user as u32;
            // They have the first slots.
            told(population.deposit(round, user), slot.map(|_| user))
        };
        wanted.extend(others.into_iter().map(simulated));
        // No place in the schedule belongs to real clients.
        let place = rng.random_range(0..wanted.len());
        wanted.swap(0, place);
        wanted
    }

    fn derive(&self, purpose: &str, round: Round, client: u32) -> [u8; 32] {
        let digest = Sha256::new_with_prefix(b"sotto-sim/closed-loop/v1\0").chain_update(purpose);
        let digest = digest.chain_update([0]).chain_update(self.seed.to_le_bytes());
        digest.chain_update(round.0.to_le_bytes()).chain_update(client.to_le_bytes()).finalize().into()
    }
}
