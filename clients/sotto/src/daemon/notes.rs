//! What the participant's events say to a person.

use core::time::Duration;

use sotto_protocol::audit::AUDITED_WHEN_ASKED;
use sotto_protocol::client::{Client, Notice, OpenInvitation, Unshown, Warning};
use sotto_protocol::{ConversationId, ConversationKind, RoundMode, ServerParameters, UnixMillis};

use super::account::as_shown;
use super::blocked::Blocked;
use super::journal::Entry;
use super::message::{Audited, Found, Note, Reply, RoundCost, Severity, Step};
use super::parcel::Parcel;
use super::severity::{of_loss, of_trouble, of_warning};
use sotto_participant::{Event, Finding, RoundReport, rounds_to_arrive};
use sotto_session::ConnectError;

/// People are told no earlier that somebody has not answered.
const UNANSWERED_MS: u64 = 60 * 60 * 1000;

/// What becomes of an event in the journal.
pub(super) fn entry(event: &Event, client: &Client) -> Option<Entry> {
    let name = |id: &ConversationId| name(client, *id);
    Some(match event {
        Event::Notice(Notice::Text { conversation, from, text, sequence, number }) => {
            let (conversation, sequence, number) = (*conversation, *sequence, *number);
            let (from, text) = (from.clone(), text.clone());
            Entry::Text(as_shown(client, &Unshown { number, conversation, from, text, sequence }))
        }
        Event::Notice(Notice::Established { conversation }) => {
            lasting(Severity::Notice, format!("{} is there: texts can go out", name(conversation)))
        }
        Event::Notice(Notice::Acknowledged { message, .. }) => Entry::Arrived(*message),
        Event::Notice(Notice::Left { conversation, from }) => {
            lasting(Severity::Notice, format!("{from} has left {}", name(conversation)))
        }
        Event::Notice(Notice::Removed { conversation, by, yourself: true, .. }) => {
            lasting(Severity::Warning, format!("{by} has removed you from {}", name(conversation)))
        }
        Event::Notice(Notice::Removed { conversation, by, member, .. }) => {
            lasting(Severity::Notice, format!("{by} has removed {member} from {}", name(conversation)))
        }
        Event::Notice(Notice::NewKeys { conversation }) => {
            passing(Severity::Notice, format!("{} has new keys", name(conversation)))
        }
        Event::Notice(Notice::NotSent { conversation, .. }) => {
            let why = not_sent(client, *conversation);
            lasting(Severity::Warning, format!("a text to {} was not sent: {why}", name(conversation)))
        }
        Event::Notice(Notice::Expired { contact, accepted, texts, .. }) => {
            lasting(Severity::Warning, expired(contact, *accepted, *texts))
        }
        Event::Notice(Notice::Warning(Warning::IdentityHeld { conversation, held })) => {
            let held = held.map_or_else(|| "yourself".to_owned(), |held| name(&held));
            let warning = Warning::IdentityHeld { conversation: *conversation, held: None };
            let line = format!("warning ({} is {held}): {warning}", name(conversation));
            lasting(of_warning(&warning), line)
        }
        Event::Notice(Notice::Warning(warning)) => {
            let about = about(warning).map_or_else(String::new, |id| format!(" ({})", name(&id)));
            lasting(of_warning(warning), format!("warning{about}: {warning}"))
        }
        // Told also to one who comes later, as it may be over by then; without the round, so that it is the same line again.
        Event::Trouble { trouble, .. } if of_trouble(trouble) == Severity::Alarm => {
            lasting(Severity::Alarm, format!("warning: {trouble}"))
        }
        Event::Trouble { round: Some(round), trouble } => {
            passing(of_trouble(trouble), format!("warning: round {round}: {trouble}"))
        }
        Event::Trouble { round: None, trouble } => {
            passing(of_trouble(trouble), format!("warning: {trouble}"))
        }
        Event::Audited { round, unit, finding } => Entry::Audited(audited(round.0, *unit, finding)),
        Event::ConnectionLost(error) => {
            let line = format!("connection lost: {error}; trying again");
            let note = Note::new(of_loss(error), line);
            if is_alarming(error) { Entry::Lasting(note) } else { Entry::Passing(note) }
        }
        Event::ConnectionRestored => passing(Severity::Notice, "connected again".to_owned()),
        Event::Step { round, step } => Entry::Step(round.0, self::step(*step)),
        Event::RoundReport(report) => Entry::Round(cost(report)),
        Event::Missed(count) => {
            lasting(Severity::Warning, format!("warning: {count} messages of this program were lost"))
        }
    })
}

fn lasting(severity: Severity, line: String) -> Entry {
    Entry::Lasting(Note::new(severity, line))
}

fn passing(severity: Severity, line: String) -> Entry {
    Entry::Passing(Note::new(severity, line))
}

/// How far a round is, as programs hear it.
pub(super) fn step(step: sotto_participant::Step) -> Step {
    match step {
        sotto_participant::Step::Opened(elapsed) => {
            Step::Opened { elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX) }
        }
        sotto_participant::Step::Deposited => Step::Deposited,
        sotto_participant::Step::Ready => Step::Ready,
    }
}

/// What a check of an answer has found.
fn audited(round: u64, unit: u16, finding: &Finding) -> Audited {
    let answer = format!("the server's answer of unit {unit} in round {round}");
    let (found, line, proof) = match finding {
        Finding::Honest => (Found::Honest, format!("{answer} is right"), None),
        Finding::Cheated(Ok(proof)) => (
            Found::Cheated,
            format!(
                "THE SERVER CHEATS: {answer}, or its hint, is wrong, and signed by it; whoever knows its address can check that with \
                 'sotto verify-proof {proof}'"
            ),
            Some(proof.clone()),
        ),
        Finding::Cheated(Err(reason)) => (
            Found::Cheated,
            format!(
                "THE SERVER CHEATS: {answer}, or its hint, is wrong, and signed by it; the proof is not kept: {reason}"
            ),
            None,
        ),
        Finding::Open(reason) => (Found::Open, format!("{answer} could not be checked: {reason}"), None),
    };
    Audited { round, unit, found, line, proof }
}

/// When so many answers will have been checked.
pub(super) fn audit_pace(server: &ServerParameters, answers: u32) -> String {
    let rounds = u64::from(answers).saturating_mul(AUDITED_WHEN_ASKED);
    let seconds = u64::from(server.round_ms).saturating_mul(rounds) / 1000;
    format!(
        "one answer in about {AUDITED_WHEN_ASKED} rounds is checked: {answers} in about {rounds} rounds, {seconds} s"
    )
}

/// What became of an invitation that nobody answered.
fn expired(contact: &str, accepted: bool, texts: u32) -> String {
    let whose = if accepted { "from" } else { "for" };
    let lost = if texts == 0 { String::new() } else { format!("; {texts} texts that waited are gone") };
    format!(
        "the invitation {whose} {contact} was not answered in its time and has ended: ask for another, or make one{lost}"
    )
}

/// Who was to be online since an invitation was accepted here, and has not answered: it may have been used before, of which only
/// who made it can know.
pub(super) fn unanswered(
    client: &Client,
    blocked: &Blocked,
    now: UnixMillis,
) -> Vec<(ConversationId, String)> {
    let (server, places) = (client.server(), client.settings().conversations);
    // Request and answer, each as long as a text may take, and as long again.
    let wait = 4 * u64::from(rounds_to_arrive(server, places)) * u64::from(server.round_ms);
    let wait = wait.max(UNANSWERED_MS);
    let late = |open: &OpenInvitation| open.accepted && now.since(open.made) >= wait;
    let line = |contact: &str| {
        format!(
            "{contact} has not answered since you accepted the invitation: either {contact} was not online, or somebody \
             else has used it before you, as it serves one person; if {contact} was online, ask for another"
        )
    };
    let open = client.invitations().into_iter();
    let open = open.filter(|open| late(open) && !blocked.blocks(open.conversation));
    open.map(|open| (open.conversation, line(&open.contact))).collect()
}

/// The conversation that a warning is about.
fn about(warning: &Warning) -> Option<ConversationId> {
    match warning {
        Warning::SplitView { conversation }
        | Warning::Corrupted { conversation }
        | Warning::OtherKeys { conversation }
        | Warning::WentBack { conversation }
        | Warning::CardKeys { conversation }
        | Warning::KeysDiffer { conversation }
        | Warning::RekeyRefused { conversation }
        | Warning::NameBorrowed { conversation }
        | Warning::RekeyNeeded { conversation } => Some(*conversation),
        _ => None,
    }
}

/// Why a text was given back.
fn not_sent(client: &Client, id: ConversationId) -> &'static str {
    match client.conversations().iter().any(|conversation| conversation.id == id && !conversation.ended) {
        true => "it was said while a member was to be removed, who stays",
        false => "it has ended for you",
    }
}

fn name(client: &Client, id: ConversationId) -> String {
    let conversations = client.conversations();
    let found = conversations.into_iter().find(|conversation| conversation.id == id);
    found.map_or_else(|| "?".to_owned(), |conversation| conversation.name)
}

fn cost(report: &RoundReport) -> RoundCost {
    let up = report.keys.bytes + report.deposit.bytes + report.query.bytes;
    let down = report.mapping.bytes + report.hint + report.answer.bytes;
    let line = format!(
        "round {}: {} deposits; {} bytes up, {} bytes down; query {} ms, answer {} ms",
        report.round,
        report.entries,
        up,
        down,
        report.build.as_millis(),
        (report.query.time + report.answer.time).as_millis(),
    );
    let (round, deposits) = (report.round.0, report.entries);
    // Whoever hears one after the other adds them up.
    RoundCost { round, deposits, bytes_up: up, bytes_down: down, bytes_day: 0, line }
}

/// What a person can expect of the server's rounds.
pub(super) fn pace(server: &ServerParameters, places: u8, contact: &str) -> String {
    let least = match server.mode {
        RoundMode::Deadline => "",
        RoundMode::ClosedLoop => "at least ",
    };
    let seconds = Duration::from_millis(server.round_ms.into()).as_secs_f64();
    let turns = match places {
        1 => "in every round".to_owned(),
        places => format!("once in {places} rounds"),
    };
    let (about, most) = delay(server, places);
    format!(
        "rounds of {least}{seconds} s; your turn with {contact} comes {turns}, so a text takes about {about} to {most} s"
    )
}

/// How long a text takes to a contact, about, and if the turn has just passed, s.
pub(super) fn delay(server: &ServerParameters, places: u8) -> (u64, u64) {
    // The next turn is up to two cycles away.
    let about = (u64::from(rounds_to_arrive(server, places)) * u64::from(server.round_ms)).div_ceil(1000);
    (about, 2 * about)
}

/// Bytes of a text that go into one message between two, and in a group (PROTOCOL, section 11).
const PAIR_CONTENT: usize = 232;
const GROUP_CONTENT: usize = 136;

fn content(kind: ConversationKind) -> usize {
    match kind {
        ConversationKind::Contact => PAIR_CONTENT,
        ConversationKind::Group => GROUP_CONTENT,
    }
}

/// How long it takes at least until a file has arrived.
pub(super) fn sending(client: &Client, id: ConversationId, parcel: &Parcel) -> Reply {
    let messages = parcel.messages(content_of(client, id));
    let (rounds, seconds) = left(client, messages);
    Reply::Sending { messages, rounds, seconds }
}

/// Bytes of a text that go into one message of a conversation.
pub(super) fn content_of(client: &Client, id: ConversationId) -> usize {
    let found = client.conversations().into_iter().find(|conversation| conversation.id == id);
    found.map_or(PAIR_CONTENT, |found| content(found.kind))
}

/// Rounds, and by their length seconds, that it takes at least until so many messages of a conversation have arrived.
pub(super) fn left(client: &Client, messages: u64) -> (u64, u64) {
    let places = client.settings().conversations;
    // One message in each turn, and the last one has to arrive.
    let turns = messages.saturating_sub(1).saturating_mul(places.into());
    let rounds = turns.saturating_add(rounds_to_arrive(client.server(), places).into());
    (rounds, rounds.saturating_mul(client.server().round_ms.into()) / 1000)
}

/// Whether a lost connection may be somebody's intention, so that it is told also to one who comes later.
pub(super) fn is_alarming(error: &ConnectError) -> bool {
    !matches!(error, ConnectError::Unreachable(_) | ConnectError::TooOften { .. } | ConnectError::Refused(_))
}

#[cfg(test)]
mod tests {
    use sotto_protocol::UnixMillis;

    use super::{GROUP_CONTENT, PAIR_CONTENT, UNANSWERED_MS, cost, sending, unanswered};
    use crate::daemon::blocked::Blocked;
    use crate::daemon::message::Reply;
    use crate::daemon::parcel::Parcel;
    use crate::testing::client;
    use sotto_participant::{Phase, RoundReport};

    #[test]
    fn who_accepted_an_invitation_that_nobody_answers_hears_what_may_have_happened() {
        let (mut alice, mut bob) = (client("alice"), client("bob"));
        let mut rng: rand::rngs::StdRng = rand::make_rng();
        let invitation = alice.invite("bob", UnixMillis(0), &mut rng).unwrap();
        let id = bob.accept("alice", &invitation, UnixMillis(5), &mut rng).unwrap();
        bob.invite("carol", UnixMillis(0), &mut rng).unwrap();
        let nobody = Blocked::default();
        assert!(unanswered(&bob, &nobody, UnixMillis(4 + UNANSWERED_MS)).is_empty());
        assert!(unanswered(&bob, &nobody, UnixMillis(0)).is_empty(), "a clock was put back");
        let told = unanswered(&bob, &nobody, UnixMillis(5 + UNANSWERED_MS));
        assert!(told.len() == 1 && told[0].0 == id && told[0].1.starts_with("alice has not answered"));
        assert!(
            unanswered(&alice, &nobody, UnixMillis(1 << 40)).is_empty(),
            "who invited waits for a person"
        );
    }

    /// A round line that leaves one out would say that taking part is cheaper than it is.
    #[test]
    fn all_transfers_of_a_round_are_in_its_cost() {
        let phase = |bytes| Phase { bytes, ..Phase::default() };
        let cost = cost(&RoundReport {
            keys: phase(1),
            deposit: phase(20),
            query: phase(300),
            mapping: phase(4_000),
            hint: 50_000,
            answer: phase(600_000),
            ..RoundReport::default()
        });
        assert_eq!((cost.bytes_up, cost.bytes_down), (321, 654_000));
    }

    /// What is said of a file before it is sent is as many messages as it takes, and their turns.
    #[test]
    fn a_file_takes_the_messages_that_it_is_said_to_take() {
        let mut alice = client("alice");
        let mut rng: rand::rngs::StdRng = rand::make_rng();
        alice.invite("bob", UnixMillis(0), &mut rng).unwrap();
        alice.create_group("desk", &[("carol".to_owned(), client("carol").identity())], &mut rng).unwrap();
        for (name, content) in [("bob", PAIR_CONTENT), ("desk", GROUP_CONTENT)] {
            let id = alice.find(name).unwrap();
            let mut queue = |text: &str| alice.queue_text(id, text).unwrap().sequence;
            assert_eq!(queue(&"x".repeat(content)), 1);
            assert_eq!(queue(&"x".repeat(content + 1)), 3);
            let parcel = Parcel::new("map.png", vec![7; 10_000]).unwrap();
            let last = (0..=parcel.parts()).map(|number| queue(&parcel.text(number))).last().unwrap();
            let Reply::Sending { messages, rounds, seconds } = sending(&alice, id, &parcel) else { panic!() };
            assert_eq!(messages, u64::from(last) - 3);
            // Two places, of which one is this conversation's, and rounds of a second.
            assert_eq!((rounds, seconds), (2 * (messages - 1) + 4, rounds));
        }
    }
}
