//! What to ask in a round, and what to make of the answers.

use core::fmt;

use pbc::{HashedCode, Plan};
use rand_core::CryptoRng;

use super::{Client, Holder, MessageId, Notice, State, Want, Warning};
use crate::conversation::{ConversationId, Event, Talk};
use crate::group::{Rekey, is_goodbye};
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
        let mut notices = self.state.tell();
        notices.extend(retrieval.problem.take().map(Notice::Warning));
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
        let held = self.identities_held(id);
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
                    let identity = self.conversation(id).ok().and_then(|talk| match &talk.talk {
                        Talk::Pair(pair) => pair.peer_identity(),
                        Talk::Group(_) => None,
                    });
                    let holder = identity.and_then(|identity| self.holder(identity, Some(id)));
                    let held = holder.and_then(Holder::contact);
                    notices.push(Notice::Warning(Warning::IdentityHeld { conversation: id, held }));
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
        if is_goodbye(&whole) {
            return self.take_goodbye(id, member);
        }
        let corrupted = || Notice::Warning(Warning::Corrupted { conversation: id });
        let Some(content) = &whole.content else { return Ok(vec![corrupted()]) };
        if whole.kind == Kind::Rekey {
            return self.take_rekey(id, content).or_else(|_| Ok(vec![corrupted()]));
        }
        let conversation = self.conversation(id)?;
        let from = match &conversation.talk {
            Talk::Pair(pair) => self.name_of_peer(id, pair, &conversation.name),
            Talk::Group(group) => group.name_of(member).to_owned(),
        };
        let text = core::str::from_utf8(content).map(str::to_owned);
        Ok(vec![text.map_or_else(
            |_| corrupted(),
            |text| Notice::Text { conversation: id, from, text, sequence: whole.sequence },
        )])
    }

    /// Somebody has left: the present member of the lowest number makes new keys.
    fn take_goodbye(&mut self, id: ConversationId, member: u8) -> Result<Vec<Notice>, Error> {
        let group = self.group_mut(id)?;
        let from = group.name_of(member).to_owned();
        let mut notices = vec![Notice::Left { conversation: id, from }];
        let present: Vec<u8> = group.members().filter(|peer| peer.present).map(|peer| peer.number).collect();
        let mine = present.len() > 1 && present.first() == Some(&group.me());
        if mine && self.rekey(id, member).is_err() {
            notices.push(Notice::Warning(Warning::RekeyNeeded { conversation: id }));
        }
        Ok(notices)
    }

    /// A contact hands over new keys for a group of which both are members.
    fn take_rekey(&mut self, contact: ConversationId, content: &[u8]) -> Result<Vec<Notice>, Error> {
        let rekey = Rekey::decode(content)?;
        let next = self.clock.next();
        let author = match &self.conversation(contact)?.talk {
            Talk::Pair(pair) => pair.peer_identity().ok_or(Error::Unknown("contact"))?,
            Talk::Group(_) => return Err(Error::Malformed("rekey")),
        };
        let found = self.conversations.iter_mut().find_map(|conversation| match &mut conversation.talk {
            Talk::Group(group) if *group.id() == rekey.group => Some((conversation.id, group)),
            _ => None,
        });
        // A group that was left, or never joined.
        let Some((id, group)) = found else { return Ok(Vec::new()) };
        let author = group.members().find(|member| member.identity == author).map(|member| member.number);
        let rekeyed = group.apply(author.ok_or(Error::Malformed("rekey"))?, rekey, next)?;

        let left = |number: &u8| Notice::Left { conversation: id, from: group.name_of(*number).to_owned() };
        let mut notices: Vec<Notice> = rekeyed.removed.iter().map(left).collect();
        notices.extend(group.acknowledged().into_iter().map(|sequence| acknowledged(id, sequence)));
        if let Some(again) = rekeyed.again
            && self.rekey(id, again).is_err()
        {
            notices.push(Notice::Warning(Warning::RekeyNeeded { conversation: id }));
        }
        Ok(notices)
    }
}

fn acknowledged(conversation: ConversationId, sequence: u32) -> Notice {
    Notice::Acknowledged { conversation, message: MessageId { conversation, sequence } }
}
