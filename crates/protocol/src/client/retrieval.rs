//! What to ask in a round, and what to make of the answers.

use core::fmt;

use pbc::{HashedCode, Plan};
use rand_core::CryptoRng;

use super::{Client, MessageId, Notice, State, Want, Warning};
use crate::conversation::{ConversationId, Event, Talk};
use crate::group::{Farewell, Rekey};
use crate::mapping::{BloomMapping, LabelOracle, Outcome};
use crate::message::{Head, Kind};
use crate::seal::Plaintext;
use crate::stream::Delivered;
use crate::{Error, Label, Manifest, Round, UnixMillis};

/// Which element to ask of every bucket in one round. What is not a target is asked at random; the whole is secret.
pub struct Retrieval {
    /// The round.
    pub round: Round,
    /// For each of the b buckets the position to read, or `None` for any.
    pub targets: Vec<Option<usize>>,
    /// What became of the boxes looked for.
    pub counts: Lookups,
    /// Which buckets are read together for which wanted box, and the code that makes the box of what they hold.
    assigned: Vec<(Vec<usize>, Label)>,
    code: Option<Box<dyn HashedCode>>,
    problem: Option<Warning>,
}

/// What became of the boxes looked for in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// At one position.
    pub found: usize,
    /// Not in the round.
    pub absent: usize,
    /// At several positions: deposited more than once, or the filters err.
    pub ambiguous: usize,
    /// Of those in the round, not read this time: others had taken their buckets. Their senders repeat them.
    pub deferred: usize,
}

impl Retrieval {
    /// Asks for nothing: random positions in all buckets.
    #[must_use]
    pub fn dummy(round: Round, buckets: usize) -> Self {
        let (assigned, counts) = (Vec::new(), Lookups::default());
        Self { round, targets: vec![None; buckets], counts, assigned, code: None, problem: None }
    }
}

impl Retrieval {
    /// The box read from these buckets together, if all their answers came.
    fn decode(&self, buckets: &[usize], elements: &[Option<Vec<u8>>]) -> Option<Vec<u8>> {
        let codeword = |bucket: &usize| elements.get(*bucket)?.as_deref();
        let codewords: Option<Vec<&[u8]>> = buckets.iter().map(codeword).collect();
        self.code.as_ref()?.decode(&codewords?).ok()
    }
}

impl fmt::Debug for Retrieval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retrieval").field("round", &self.round).finish_non_exhaustive()
    }
}

impl Client {
    /// Looks up in a round's mapping the boxes this client wants, and decides what to ask of every bucket.
    ///
    /// Where manifest or mapping are not in order, that is [`Retrieval::dummy`], and [`Client::received`] says why.
    #[must_use]
    pub fn lookup(&self, round: Round, mapping: &[u8], rng: &mut impl CryptoRng) -> Retrieval {
        let dummy = Retrieval::dummy(round, self.state.server.buckets.into());
        let (Some(manifest), Some(wants)) = (self.state.ready.get(&round), self.state.wants.get(&round))
        else {
            return dummy;
        };
        let planned = Manifest::decode(manifest).and_then(|manifest| plan(&manifest, mapping, wants, rng));
        planned.unwrap_or(Retrieval { problem: Some(Warning::BadMapping { round }), ..dummy })
    }

    /// Takes the answers of a round, one for each bucket, `None` for those that did not come. The round's keys are
    /// erased, whatever came of it.
    pub fn received(
        &mut self,
        mut retrieval: Retrieval,
        elements: Vec<Option<Vec<u8>>>,
        _now: UnixMillis,
    ) -> Vec<Notice> {
        let round = retrieval.round;
        self.state.ready.remove(&round);
        let wants = self.state.wants.remove(&round).unwrap_or_default();
        let mut notices: Vec<Notice> = retrieval.problem.take().into_iter().map(Notice::Warning).collect();
        for want in &wants {
            let read = retrieval.assigned.iter().filter(|(_, wanted)| *wanted == want.key.label());
            let boxes: Vec<Vec<u8>> =
                read.filter_map(|(buckets, _)| retrieval.decode(buckets, &elements)).collect();
            if boxes.is_empty() {
                continue;
            }
            let opened = boxes.iter().find_map(|sealed| want.key.open(sealed));
            let taken = opened.ok_or(Error::Malformed("box"));
            let conversation = want.conversation;
            match taken.and_then(|plaintext| self.state.take_message(want, &plaintext, round)) {
                Ok(more) => notices.extend(more),
                // A conversation that was forgotten in the meantime.
                Err(Error::Unknown(_)) => {}
                Err(_) => notices.push(Notice::Warning(Warning::Corrupted { conversation })),
            }
        }
        notices.extend(self.state.group_news());
        notices
    }
}

/// Schedules what is wanted, in random order: which box must wait for another does not depend on whose they are.
fn plan(
    manifest: &Manifest,
    mapping: &[u8],
    wants: &[Want],
    rng: &mut impl CryptoRng,
) -> Result<Retrieval, Error> {
    let mapping = BloomMapping::decode(mapping, manifest)?;
    let code = manifest.code()?;
    let mut order: Vec<(u64, usize)> = (0..wants.len()).map(|number| (rng.next_u64(), number)).collect();
    order.sort_unstable();
    let label = |(_, number): &(u64, usize)| wants.get(*number).map(|want| want.key.label());
    let labels: Vec<Label> = order.iter().filter_map(label).collect();
    let oracle = LabelOracle::new(&mapping, &*code, &labels);
    let keys = oracle.keys();
    let plan = Plan::new(&*code, &keys, &oracle);

    let mut assigned = Vec::new();
    for key in 0..keys.len() {
        let wanted = oracle.wanted(key).and_then(|wanted| labels.get(wanted));
        if let (buckets @ [_, ..], Some(label)) = (plan.assignment(key), wanted) {
            assigned.push((buckets.iter().map(|bucket| bucket.to_usize()).collect(), *label));
        }
    }
    let count = |outcome| oracle.outcomes().iter().filter(|other| **other == outcome).count();
    let (found, absent, ambiguous) =
        (count(Outcome::Found), count(Outcome::Absent), count(Outcome::Ambiguous));
    let mut read: Vec<Label> = assigned.iter().map(|(_, label)| *label).collect();
    read.sort_unstable();
    read.dedup();
    let deferred = (found + ambiguous).saturating_sub(read.len());
    let counts = Lookups { found, absent, ambiguous, deferred };
    let (round, targets, code) = (manifest.round, plan.targets, Some(code));
    Ok(Retrieval { round, targets, counts, assigned, code, problem: None })
}

impl State {
    fn take_message(
        &mut self,
        want: &Want,
        plaintext: &Plaintext,
        round: Round,
    ) -> Result<Vec<Notice>, Error> {
        let next = self.clock.next();
        let id = want.conversation;
        let others = self.conversations.iter().filter(|other| other.id != id);
        let held: Vec<[u8; 32]> = others
            .filter_map(|other| match &other.talk {
                Talk::Pair(pair) => pair.peer_identity(),
                Talk::Group(_) => None,
            })
            .collect();
        let (events, head) = match &mut self.conversation_mut(id)?.talk {
            Talk::Pair(pair) => pair.receive(want.epoch, plaintext, round, next, &held)?,
            Talk::Group(group) => {
                group.receive((want.epoch, want.member), want.key.label(), plaintext, round)?
            }
        };
        let mut notices = Vec::new();
        if self.contradicts(head) {
            notices.push(Notice::Warning(Warning::SplitView { conversation: id }));
        }
        for event in events {
            match event {
                Event::Established => notices.push(Notice::Established { conversation: id }),
                Event::Acknowledged(sequence) => notices.push(acknowledged(id, sequence)),
                Event::OtherKeys => {
                    notices.push(Notice::Warning(Warning::OtherKeys { conversation: id }));
                }
                Event::IdentityHeld => {
                    notices.push(Notice::Warning(Warning::IdentityHeld { conversation: id }));
                }
                Event::Delivered { member, whole } => notices.extend(self.deliver(id, member, whole)?),
            }
        }
        Ok(notices)
    }

    /// Whether a contact knows another history of the server than this client.
    fn contradicts(&self, head: Option<Head>) -> bool {
        head.is_some_and(|(round, prefix)| self.chain.contradicts(round, prefix))
    }

    fn deliver(&mut self, id: ConversationId, member: u8, whole: Delivered) -> Result<Vec<Notice>, Error> {
        let corrupted = || Notice::Warning(Warning::Corrupted { conversation: id });
        let Some(content) = &whole.content else { return Ok(vec![corrupted()]) };
        let taken = match whole.kind {
            Kind::Rekey => self.take_rekey(id, content),
            Kind::Leave => self.take_farewell(content),
            _ => {
                let from = self.name_of(id, member)?;
                let text = core::str::from_utf8(content).ok().filter(|text| !text.is_empty());
                let text = text.map(str::to_owned);
                return Ok(vec![text.map_or_else(corrupted, |text| Notice::Text {
                    conversation: id,
                    from,
                    text,
                    sequence: whole.sequence,
                })]);
            }
        };
        Ok(taken.err().map(|_| corrupted()).into_iter().collect())
    }

    /// A contact hands over new keys for a group of which both are members.
    fn take_rekey(&mut self, contact: ConversationId, content: &[u8]) -> Result<(), Error> {
        let rekey = Rekey::decode(content)?;
        let next = self.clock.next();
        let author = match &self.conversation(contact)?.talk {
            Talk::Pair(pair) => pair.peer_identity().ok_or(Error::Unknown("contact"))?,
            Talk::Group(_) => return Err(Error::Malformed("rekey")),
        };
        // None is a group that was left, or never joined.
        let Some(group) = self.group_of(&rekey.group) else { return Ok(()) };
        let author = group.members().find(|member| member.identity == author).map(|member| member.number);
        group.offer(author.ok_or(Error::Malformed("rekey"))?, rekey, next)
    }

    /// A contact hands on that a member of a group has left it.
    fn take_farewell(&mut self, content: &[u8]) -> Result<(), Error> {
        let farewell = Farewell::decode(content)?;
        self.group_of(&farewell.group).map_or(Ok(()), |group| group.take_farewell(&farewell))
    }
}

fn acknowledged(conversation: ConversationId, sequence: u32) -> Notice {
    Notice::Acknowledged { conversation, message: MessageId { conversation, sequence } }
}
