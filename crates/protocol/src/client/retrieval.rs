//! What to ask in a round, and what to make of the answers.

use core::fmt;

use pbc::HashedCode;
use rand_core::CryptoRng;

use super::crowding::Crowding;
use super::{Client, MessageId, Notice, State, Want, Warning};
use crate::conversation::{ConversationId, Event, Talk};
use crate::group::{Rekey, is_goodbye};
use crate::mapping::{BloomMapping, Lookup, Outcome, Reading};
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
    crowding: Crowding,
    assigned: Vec<Assigned>,
    /// Makes a box of what the buckets assigned to it hold.
    code: Option<Box<dyn HashedCode>>,
    problem: Option<Warning>,
}

/// The buckets that are read together for a wanted box.
struct Assigned {
    label: Label,
    buckets: Vec<usize>,
    /// Whether the box must stand there, if the mapping does not lie or err.
    certain: bool,
}

/// What became of the boxes looked for in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// At one position.
    pub found: usize,
    /// Not in the round.
    pub absent: usize,
    /// At several positions, of which one was read: deposited more than once, or the filters err.
    pub ambiguous: usize,
    /// In the round, but not read this time: others had their buckets. Their senders repeat them.
    pub deferred: usize,
}

impl Retrieval {
    /// Asks for nothing: random positions in all buckets.
    #[must_use]
    pub fn dummy(round: Round, buckets: usize) -> Self {
        Self {
            round,
            targets: vec![None; buckets],
            counts: Lookups::default(),
            crowding: Crowding::default(),
            assigned: Vec::new(),
            code: None,
            problem: None,
        }
    }
}

impl Retrieval {
    /// The box read from these buckets together, if all their answers came.
    fn decode(&self, buckets: &[usize], elements: &[Option<Vec<u8>>]) -> Option<Vec<u8>> {
        // Of no bucket a code could make a box of zeros.
        let buckets = Some(buckets).filter(|buckets| !buckets.is_empty())?;
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
        if self.state.crowding.add(retrieval.crowding) {
            notices.push(Notice::Warning(Warning::Crowded));
        }
        for want in &wants {
            let label = want.key.label();
            let Some(read) = retrieval.assigned.iter().find(|assigned| assigned.label == label) else {
                continue;
            };
            let Some(sealed) = retrieval.decode(&read.buckets, &elements) else { continue };
            let conversation = want.conversation;
            let taken = match want.key.open(&sealed) {
                Some(plaintext) => self.state.take_message(want, &plaintext, round),
                // A filter that errs, or the other one of two boxes under this label.
                None if !read.certain => continue,
                None => Err(Error::Malformed("box")),
            };
            match taken {
                Ok(more) => notices.extend(more),
                // A conversation that was forgotten in the meantime.
                Err(Error::Unknown(_)) => {}
                Err(_) => notices.push(Notice::Warning(Warning::Corrupted { conversation })),
            }
        }
        notices
    }
}

/// Buckets for all boxes of the round's batch, wanted or not, and then the positions of those that are wanted.
fn plan(
    manifest: &Manifest,
    mapping: &[u8],
    wants: &[Want],
    rng: &mut impl CryptoRng,
) -> Result<Retrieval, Error> {
    let mapping = BloomMapping::decode(mapping, manifest)?;
    let code = manifest.code()?;
    let labels: Vec<Label> = wants.iter().map(|want| want.key.label()).collect();
    let lookup = Lookup::new(&*code, &mapping, &labels, rng);

    let reading = |(label, reading): (&Label, &Reading)| Assigned {
        label: *label,
        buckets: reading.buckets.iter().map(|bucket| bucket.to_usize()).collect(),
        certain: reading.outcome == Outcome::Found,
    };
    let assigned = labels.iter().zip(lookup.readings()).map(reading).collect();
    let counts = Lookups {
        found: lookup.count(Outcome::Found),
        absent: lookup.count(Outcome::Absent),
        ambiguous: lookup.count(Outcome::Ambiguous),
        deferred: lookup.count(Outcome::Deferred),
    };
    let crowding = Crowding::of(lookup.readings(), manifest.bucket_size);
    let (round, targets, code) = (manifest.round, lookup.targets().to_vec(), Some(code));
    Ok(Retrieval { round, targets, counts, crowding, assigned, code, problem: None })
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
        let room = self.has_room(id);
        self.conversation_mut(id)?.make_room(room);
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
                Event::WentBack => {
                    notices.push(Notice::Warning(Warning::WentBack { conversation: id }));
                }
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
            Talk::Pair(_) => conversation.name.clone(),
            Talk::Group(group) => group.name_of(member).to_owned(),
        };
        let Ok(text) = core::str::from_utf8(content).map(str::to_owned) else {
            return Ok(vec![corrupted()]);
        };
        let number = self.keep_unshown(id, &from, &text, whole.sequence);
        Ok(vec![Notice::Text { conversation: id, from, text, sequence: whole.sequence, number }])
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
