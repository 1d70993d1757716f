//! What to ask in a round, and what to make of the answers.

use core::fmt;
use core::hint::black_box;
use core::ops::Range;

use pbc::BatchCode;
use pbc::oblivious::equal;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::addresses::Whereabouts;
use super::crowding::Crowding;
use super::{Client, Holder, MessageId, Notice, State, Want, Warning};
use crate::conversation::{ConversationId, Talk};
use crate::error::{Malformed, ManifestError, Unknown};
use crate::group::{Farewell, Rekey};
use crate::mapping::{BloomMapping, Lookup, Outcome, Places, Reading, Sought, Targets};
use crate::message::{Head, Kind};
use crate::pair::Pair;
use crate::seal::Plaintext;
use crate::stream::Delivered;
use crate::table::told;
use crate::turn::Event;
use crate::{Error, Label, Manifest, Round};

/// Which element to ask of every bucket in one round. What is not a target is asked at random; the whole is secret.
pub struct Retrieval {
    /// The round.
    pub round: Round,
    /// For each of the b buckets the position to read, or `None` for any.
    pub targets: Targets,
    /// What became of the boxes looked for.
    pub counts: Lookups,
    /// What is read of a table, and for whom.
    plan: Option<Plan>,
    crowding: Crowding,
    assigned: Vec<Assigned>,
    /// Makes a box of what the buckets assigned to it hold.
    code: Option<Box<dyn BatchCode>>,
    problem: Option<Warning>,
}

/// What is read for a wanted box.
struct Assigned {
    label: Label,
    reading: Reading,
    /// Where in what is read the knock is that is looked for, if it is no box.
    cell: Option<Range<usize>>,
    /// Whether a mapping has told where the box is, and so whether it is.
    is_mapped: bool,
}

impl Assigned {
    /// Whether the box must stand there, if the mapping does not lie or err.
    fn is_certain(&self) -> bool {
        self.is_mapped && self.reading.outcome() == Outcome::Found
    }

    /// Whether the mapping says that it is nowhere.
    fn is_hidden(&self) -> bool {
        self.is_mapped && self.reading.outcome() == Outcome::Absent
    }
}

/// Which places of a table are read, and for whom each: what stays where queries stand. The whole is secret.
///
/// It is for those alone for whom it was made. What comes to be wanted later is not read before the next one, also if it lies in a
/// place that is read for somebody else: otherwise who makes it be wanted would see who is.
#[derive(Clone)]
pub struct Plan {
    places: Places,
    readers: Zeroizing<Vec<Reader>>,
}

/// For whom something is read: conversation, member, whether it is a knock; and where, and whether that was known.
type Reader = [u32; 5];

impl Plan {
    fn new(places: &Places, wanted: &[(&Want, Option<Whereabouts>)]) -> Self {
        let reader = |(want, found): &(&Want, Option<Whereabouts>)| {
            let [conversation, member, knock] = reader(want, found.as_ref());
            let Sought { place, is_known } = sought_at(found.as_ref());
            [conversation, member, knock, place, u32::from(is_known)]
        };
        Self { places: places.clone(), readers: Zeroizing::new(wanted.iter().map(reader).collect()) }
    }

    /// Where it is to be read for these: where it was to be when this was made. Without a branch on any of that.
    fn sought(&self, wanted: &[(&Want, Option<Whereabouts>)]) -> Vec<Sought> {
        let sought = |(want, found): &(&Want, Option<Whereabouts>)| {
            let asking = reader(want, found.as_ref());
            let (place, is_known) = self.readers.iter().fold((0, 0), |(found, known), planned| {
                let [conversation, member, knock, place, was_known] = *planned;
                let who = [conversation, member, knock];
                let same =
                    asking.iter().zip(who).fold(u32::MAX, |same, (one, other)| same & equal(*one, other));
                (found | (place & same), known | (was_known & same))
            });
            Sought { place, is_known: black_box(is_known) != 0 }
        };
        wanted.iter().map(sought).collect()
    }
}

fn reader(want: &Want, found: Option<&Whereabouts>) -> [u32; 3] {
    let knock = found.is_some_and(|found| found.cell.is_some());
    [want.conversation.0, want.member.into(), knock.into()]
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plan(..)")
    }
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

impl Lookups {
    fn of(count: impl Fn(Outcome) -> usize) -> Self {
        Self {
            found: count(Outcome::Found),
            absent: count(Outcome::Absent),
            ambiguous: count(Outcome::Ambiguous),
            deferred: count(Outcome::Deferred),
        }
    }
}

impl Retrieval {
    /// Asks for nothing: random positions in all buckets.
    #[must_use]
    pub fn dummy(round: Round, buckets: usize) -> Self {
        Self {
            round,
            targets: Targets::new(vec![None; buckets]),
            counts: Lookups::default(),
            plan: None,
            crowding: Crowding::default(),
            assigned: Vec::new(),
            code: None,
            problem: None,
        }
    }
}

impl Retrieval {
    /// What is read of a table, and for whom, for [`Client::look_again`]; nothing if nothing was to be wanted.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// The box that was read, if all answers came.
    fn decode(&self, reading: &Reading, elements: &[&[u8]]) -> Option<Vec<u8>> {
        let codewords = reading.codewords(elements)?;
        // Of no bucket a code would make a box of zeros.
        let is_read = !reading.buckets().is_empty();
        let codewords: Vec<&[u8]> = codewords.iter().map(|codeword| codeword.as_slice()).collect();
        self.code.as_ref()?.decode(&codewords).ok().filter(|_| is_read)
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
        let (Some(manifest), Some(wants)) = (self.state.ready.get(&round), self.state.wants_in(round)) else {
            return dummy;
        };
        let planned = Manifest::decode(manifest).and_then(|manifest| match manifest.table() {
            Some(table) => {
                let found = wants.iter().map(|want| (want, self.state.whereabouts(want, table)));
                plan_in_table(&manifest, &found.collect::<Vec<_>>(), rng)
            }
            None => plan(&manifest, mapping, wants, rng),
        });
        planned.unwrap_or(Retrieval { problem: Some(Warning::BadMapping { round }), ..dummy })
    }

    /// What a request that stands brings in another round of its epoch, if that is in order: of what is wanted, what it was made
    /// for. Nothing is to be asked, and so no [`Retrieval::targets`] are there.
    #[must_use]
    pub fn look_again(&self, round: Round, plan: &Plan) -> Retrieval {
        let dummy = Retrieval::dummy(round, 0);
        let (Some(manifest), Some(wants)) = (self.state.ready.get(&round), self.state.wants.get(&round))
        else {
            return dummy;
        };
        let planned = Manifest::decode(manifest).and_then(|manifest| {
            let table = manifest.table().ok_or(Error::Manifest(ManifestError::Table))?;
            let found = wants.iter().map(|want| (want, self.state.whereabouts(want, table)));
            let wanted = found.collect::<Vec<_>>();
            let readings = plan.places.readings(&plan.sought(&wanted));
            let assigned = assigned_in_table(&wanted, &readings);
            let counts = Lookups::of(|outcome| Reading::count(&readings, outcome));
            let code: Option<Box<dyn BatchCode>> = Some(Box::new(manifest.slot_code()?));
            Ok(Retrieval { counts, assigned, code, ..Retrieval::dummy(round, 0) })
        });
        planned.unwrap_or(Retrieval { problem: Some(Warning::BadMapping { round }), ..dummy })
    }

    /// Takes the answers of a round, one for each bucket, `None` for those that are none. Unless all came and are in order,
    /// nothing is read: if the others were, a server could spoil some, and a contact would see in which bucket hers was
    /// read. The round's keys are erased, whatever came of it.
    pub fn received(&mut self, mut retrieval: Retrieval, elements: Vec<Option<Vec<u8>>>) -> Vec<Notice> {
        let round = retrieval.round;
        self.state.ready.remove(&round);
        let wants = self.state.wants.remove(&round).unwrap_or_default();
        let mut notices = self.state.tell();
        notices.extend(retrieval.problem.take().map(Notice::Warning));
        if self.state.crowding.add(retrieval.crowding) {
            notices.push(Notice::Warning(Warning::Crowded));
        }
        let spoiled = elements.iter().any(Option::is_none);
        if spoiled && elements.iter().any(Option::is_some) {
            notices.push(Notice::Warning(Warning::BadAnswers { round }));
        }
        let elements: Vec<&[u8]> = if spoiled {
            Vec::new()
        } else {
            elements.iter().filter_map(|element| element.as_deref()).collect()
        };
        let mut hidden = false;
        // Knocks last: whose request was read is found where that was, whatever else was told in this round.
        let (knocks, boxes): (Vec<&Want>, Vec<&Want>) =
            wants.iter().partition(|want| self.state.is_knock(want));
        for want in boxes.into_iter().chain(knocks) {
            let (label, conversation) = (want.key.label(), want.conversation);
            let knock = self.state.is_knock(want);
            let is_read = |assigned: &&Assigned| assigned.label == label && assigned.cell.is_some() == knock;
            let Some(read) = retrieval.assigned.iter().find(is_read) else { continue };
            let Some(sealed) = retrieval.decode(&read.reading, &elements) else { continue };
            if let Some(cell) = &read.cell {
                if let Some(slot) = sealed.get(cell.clone()).and_then(|cell| told(&label, cell)) {
                    notices.extend(self.state.hear_knock(conversation, slot));
                }
                continue;
            }
            let taken = match want.key.open(&sealed) {
                Some(plaintext) => {
                    hidden |= read.is_hidden();
                    self.state.take_message(want, &plaintext, round)
                }
                // A filter that errs, or the other one of two boxes under this label.
                None if !read.is_certain() => continue,
                None => Err(Error::Malformed(Malformed::Box)),
            };
            match taken {
                Ok(more) => notices.extend(more),
                // A conversation that was forgotten in the meantime.
                Err(Error::Unknown(_)) => {}
                Err(_) => notices.push(Notice::Warning(Warning::Corrupted { conversation })),
            }
        }
        if hidden {
            notices.push(Notice::Warning(Warning::FalseMapping { round }));
        }
        notices.extend(self.state.group_news());
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

    let assigned = |(label, reading): (&Label, &Reading)| Assigned {
        label: *label,
        reading: reading.clone(),
        cell: None,
        is_mapped: true,
    };
    let assigned = labels.iter().zip(lookup.readings()).map(assigned).collect();
    let crowding = Crowding::of(lookup.readings(), manifest.bucket_size);
    Ok(planned(manifest, lookup, crowding, assigned, code))
}

/// Buckets for all places where wanted boxes would be, each of which is read once for all who would lie there, and their
/// positions in these buckets; and the positions of as many other places as make a batch, for nothing but the time it takes.
///
/// Whether a box was laid there at all shows when it opens, or does not.
fn plan_in_table(
    manifest: &Manifest,
    wanted: &[(&Want, Option<Whereabouts>)],
    rng: &mut impl CryptoRng,
) -> Result<Retrieval, Error> {
    let code = manifest.slot_code()?;
    let lookup = Lookup::in_table(&code, &sought(wanted), rng);
    let assigned = assigned_in_table(wanted, lookup.readings());
    let plan = lookup.places().map(|places| Plan::new(places, wanted));
    Ok(Retrieval { plan, ..planned(manifest, lookup, Crowding::default(), assigned, Box::new(code)) })
}

/// Places where boxes would be.
fn sought(wanted: &[(&Want, Option<Whereabouts>)]) -> Vec<Sought> {
    wanted.iter().map(|(_, found)| sought_at(found.as_ref())).collect()
}

fn sought_at(found: Option<&Whereabouts>) -> Sought {
    let place = found.map(|found| found.place);
    Sought { place: place.unwrap_or_default(), is_known: place.is_some() }
}

fn assigned_in_table(wanted: &[(&Want, Option<Whereabouts>)], readings: &[Reading]) -> Vec<Assigned> {
    let assigned = |((want, found), reading): (&(&Want, Option<Whereabouts>), &Reading)| Assigned {
        label: want.key.label(),
        reading: reading.clone(),
        cell: found.as_ref().and_then(|found| found.cell.clone()),
        is_mapped: false,
    };
    wanted.iter().zip(readings).map(assigned).collect()
}

fn planned(
    manifest: &Manifest,
    lookup: Lookup,
    crowding: Crowding,
    assigned: Vec<Assigned>,
    code: Box<dyn BatchCode>,
) -> Retrieval {
    let counts = Lookups::of(|outcome| lookup.count(outcome));
    let (round, targets) = (manifest.round, lookup.into_targets());
    Retrieval { round, targets, counts, plan: None, crowding, assigned, code: Some(code), problem: None }
}

impl State {
    /// What is wanted in a round. Where queries stand, one that is made for a round which this client did not open is for others, too:
    /// then it is for what is wanted in the newest of these.
    pub(super) fn wants_in(&self, round: Round) -> Option<&Vec<Want>> {
        let epoch = |round| self.server.code.epoch(round);
        let newest = || self.wants.range(epoch(round)..).rfind(|(other, _)| epoch(**other) == epoch(round));
        self.wants.get(&round).or_else(|| newest().map(|(_, wants)| wants))
    }

    fn is_knock(&self, want: &Want) -> bool {
        let talk = self.conversation(want.conversation).map(|conversation| &conversation.talk);
        matches!(talk, Ok(Talk::Pair(_))) && Pair::is_knock(want.epoch)
    }

    /// A knock tells where the peer is found, as long as that is open; or, from elsewhere, that somebody else knocks.
    fn hear_knock(&mut self, id: ConversationId, slot: u32) -> Option<Notice> {
        let known = self.addresses.of(id);
        let Talk::Pair(pair) = &mut self.conversation_mut(id).ok()?.talk else { return None };
        if pair.expects_knock() {
            self.addresses.heard(id, slot);
            return None;
        }
        let another = known.is_some_and(|known| known != slot) && pair.meets_another();
        another.then_some(Notice::Warning(Warning::OtherKeys { conversation: id }))
    }

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
                Event::WentBack => {
                    notices.push(Notice::Warning(Warning::WentBack { conversation: id }));
                }
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
        let corrupted = || Notice::Warning(Warning::Corrupted { conversation: id });
        let Some(content) = &whole.content else { return Ok(vec![corrupted()]) };
        let taken = match whole.kind {
            Kind::Rekey => self.take_rekey(id, content),
            Kind::Leave => self.take_farewell(content),
            _ => return self.deliver_text(id, member, content, whole.sequence),
        };
        Ok(taken.err().map(|_| corrupted()).into_iter().collect())
    }

    fn deliver_text(
        &mut self,
        id: ConversationId,
        member: u8,
        content: &[u8],
        sequence: u32,
    ) -> Result<Vec<Notice>, Error> {
        let text = core::str::from_utf8(content).ok().filter(|text| !text.is_empty());
        let Some(text) = text.map(str::to_owned) else {
            return Ok(vec![Notice::Warning(Warning::Corrupted { conversation: id })]);
        };
        let from = self.name_of(id, member)?;
        let number = self.keep_unshown(id, &from, &text, sequence);
        Ok(vec![Notice::Text { conversation: id, from, text, sequence, number }])
    }

    /// A contact hands over new keys for a group of which both are members.
    fn take_rekey(&mut self, contact: ConversationId, content: &[u8]) -> Result<(), Error> {
        let rekey = Rekey::decode(content)?;
        let next = self.clock.next();
        let author = match &self.conversation(contact)?.talk {
            Talk::Pair(pair) => pair.peer_identity().ok_or(Error::Unknown(Unknown::Contact))?,
            Talk::Group(_) => return Err(Error::Malformed(Malformed::Rekey)),
        };
        let Some(group) = self.group_of(&rekey.group) else {
            // One that was left, or never joined.
            self.left.ask(&rekey, &author);
            return Ok(());
        };
        let author = group.members().find(|member| member.identity == author).map(|member| member.number);
        group.offer(author.ok_or(Error::Malformed(Malformed::Rekey))?, rekey, next)
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

#[cfg(test)]
mod tests;
