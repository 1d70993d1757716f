#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use sotto_protocol::client::Client;

use super::super::blocked::Blocked;
use super::super::frame::{AWAY, write};
use super::super::history::ways::Ways;
use super::super::message::{Account, File, Message, Private, Quote, Reply, Text};
use super::{encode_identity, portion};
use crate::cli::failure::Failure;
use crate::testing::{address, client};

/// A person who mistyped a name sees that the member is to be removed, and takes it back.
#[test]
fn a_removal_shows_and_is_taken_back_by_name_or_identity() {
    let mut alice = client("alice");
    let identity = encode_identity(&client("bob").identity());
    let text = |text: &str| text.to_owned();
    let members = vec![format!("bob={identity}")];
    Account::CreateGroup { name: text("desk"), members }.perform(&mut alice, &address()).unwrap();
    let removing = |alice: &Client| match Account::Contacts
        .look(alice, &Blocked::default(), &Ways::default())
        .unwrap()
    {
        Reply::Conversations(talks) => {
            talks[0].members.iter().map(|member| (member.present, member.removing)).collect::<Vec<_>>()
        }
        reply => panic!("{reply:?}"),
    };
    let keep = |alice: &mut Client, member: &str| {
        Account::KeepMember { group: text("desk"), member: text(member) }.perform(alice, &address())
    };
    let remove = |alice: &mut Client| {
        Account::RemoveMember { group: text("desk"), member: text("bob") }.perform(alice, &address())
    };
    let says = |refused: Result<Reply, Failure>, words: &str| {
        let failure = refused.unwrap_err();
        assert!(failure.message.contains(words), "{}", failure.message);
    };
    says(keep(&mut alice, "bob"), "not about to be removed");
    for member in ["bob", &identity] {
        remove(&mut alice).unwrap();
        assert_eq!(removing(&alice), [(true, false), (true, true)]);
        says(remove(&mut alice), "'sotto group keep desk bob'");
        says(keep(&mut alice, "carol"), "has no member 'carol'");
        let say = Account::Say { conversation: text("desk"), text: Private::new("not for bob") };
        say.perform(&mut alice, &address()).unwrap();
        assert!(matches!(keep(&mut alice, member), Ok(Reply::Kept { texts: 1 })));
        assert_eq!(removing(&alice), [(true, false), (true, false)]);
    }
}

/// Otherwise a contact who sends many short replies has nothing read any more.
#[tokio::test]
async fn attack_whatever_texts_are_a_portion_of_them_goes_into_a_frame() {
    for (said, quoted) in
        [("x", 120), ("x", 0), (&*"\u{1}".repeat(255), 120), (&*"\u{1}".repeat(16 * 1024), 120)]
    {
        let text = |number| Text {
            number,
            id: sotto_protocol::ConversationId(1),
            conversation: "a".repeat(64),
            group: true,
            from: "a".repeat(64),
            text: Private::new(said),
            sequence: u32::MAX,
            at_ms: Some(u64::MAX),
            quote: Some(Quote {
                from: Some("a".repeat(64)),
                text: Some(Private::new("\u{1}".repeat(quoted))),
                sought: None,
            }),
            file: Some(File { size: 65_536, path: Some("a".repeat(300)) }),
            again: true,
        };
        let all: Vec<_> = (0..3000).map(text).collect();
        let portion = portion(all);
        assert!(!portion.is_empty());
        write(&mut Vec::new(), &Message::Reply(Reply::Texts(portion)), AWAY).await.unwrap();
    }
}
