//! The page that shows a server to its operator: all in one answer, with nothing that runs in a browser.

use data_encoding::BASE64;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::Status;
use crate::certificate::NOTICE_DAYS;
use crate::members::MemberStatus;
use crate::membership::NodeStatus;
use crate::rounds::{RoundPhase, RoundStatus};

/// A browser asks again after so many seconds.
const AGAIN_S: u8 = 5;

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1a1a1a;background:#fff}\
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}\
table{border-collapse:collapse}th,td{text-align:left;padding:.2rem 1.2rem .2rem 0;border-bottom:1px solid #ddd}\
td.n,th.n{text-align:right}.bad{color:#a40000;font-weight:600}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}th,td{border-color:#444}.bad{color:#ff8080}}";

/// What a browser may do with the page: take its style, which is known by its digest, and nothing else.
pub(super) fn policy() -> String {
    let style = BASE64.encode(&Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// The page, of the measurements of one moment. All text in it is escaped by the template.
pub(super) fn page(status: &Status, queues: &[(&'static str, i64)]) -> String {
    let node =
        status.node.map(|node| format!(", node {} of {}", node.number, node.nodes)).unwrap_or_default();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content=(AGAIN_S);
                title { "sottod" (node) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "sottod " (status.version) (node) }
                (overview(status))
                @if !status.members.is_empty() { (members(&status.members)) }
                (rounds(&status.rounds))
                h2 { "Queues" }
                table {
                    @for (name, depth) in queues { tr { td { (name) } td.n { (depth) } } }
                }
                p { "What each is, and all measurements: " code { "/metrics" } ", " code { "/status" } "." }
            }
        }
    }
    .into_string()
}

fn overview(status: &Status) -> Markup {
    html! {
        table {
            tr {
                td { "state" }
                @if status.ready { td { "serves rounds" } } @else { td.bad { (status.state()) } }
            }
            @if let Some(node) = status.node { tr { td { "lead" } (leader(&node)) } }
            tr { td { "address" } td { (status.address) } }
            tr { td { "engine" } td { (status.engine) } }
            tr { td { "up" } td { (status.uptime_s) " s" } }
            tr { td { "participants" } td { (status.participants) ", connections " (status.connections) } }
            tr { td { "round log" } td { (status.log_bytes) " bytes" } }
            (days("certificate", status.certificate_days))
            (days("certificate for other nodes", status.peer_certificate_days))
            @if let Some(left) = status.manifest_key_left { tr { td { "rounds until the manifest key ends" } td { (left) } } }
            @if status.seeds_left > 0 { tr { td { "rounds with seeds left" } td { (status.seeds_left) } } }
            tr {
                td { "new accounts" }
                td { @if status.token_required { "need a token" } @else { "need no token" } }
            }
        }
    }
}

fn leader(node: &NodeStatus) -> Markup {
    html! {
        @match node.leader {
            _ if node.leads => td { "this node leads" },
            Some(leader) => td { "node " (leader) " leads" },
            None => td.bad { "no node leads" },
        }
    }
}

fn days(what: &str, days: Option<u64>) -> Markup {
    html! {
        @if let Some(days) = days {
            tr {
                td { (what) }
                @if days < NOTICE_DAYS { td.bad { "ends in " (days) " days: 'sottod certify'" } }
                @else { td { "ends in " (days) " days" } }
            }
        }
    }
}

fn members(members: &[MemberStatus]) -> Markup {
    html! {
        h2 { "Nodes" }
        table {
            tr { th.n { "node" } th { "address" } th { "part" } th.n { "entries behind" } th { "last heard of" } }
            @for member in members {
                tr {
                    td.n { (member.number) }
                    td { (member.address) }
                    td {
                        @if member.leads { "leads" } @else if member.votes { "votes" } @else { "reads" }
                        @if member.here { ", this one" }
                    }
                    td.n { @if let Some(behind) = member.behind { (behind) } }
                    td { @if let Some(ms) = member.heard_ms { (ms) " ms ago" } }
                }
            }
        }
        @if !members.iter().any(|member| member.here && member.leads) {
            p { "How far others are is known to the node that leads." }
        }
    }
}

fn rounds(rounds: &[RoundStatus]) -> Markup {
    html! {
        h2 { "Rounds" }
        table {
            tr {
                th { "round" } th { "" } th.n { "deposits" } th.n { "elements of a bucket" } th.n { "bytes of the mapping" }
            }
            @for round in rounds {
                tr {
                    td { (round.round) }
                    td {
                        @match (round.phase, round.served) {
                            (RoundPhase::Open, _) => "open",
                            (RoundPhase::Sealed, _) => "sealed",
                            (RoundPhase::Published, true) => "served",
                            (RoundPhase::Published, false) => "published, being built here",
                        }
                    }
                    td.n { (round.deposits) }
                    td.n { @if let Some(elements) = round.bucket_elements { (elements) } }
                    td.n { @if let Some(bytes) = round.mapping_bytes { (bytes) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::{STYLE, page, policy};
    use crate::members::MemberStatus;
    use crate::membership::NodeStatus;
    use crate::rounds::{RoundPhase, RoundStatus};

    fn status() -> Status {
        let evil = "<script>alert('\"&')</script>".to_owned();
        Status {
            serving: true,
            ready: false,
            held_up_by_builds: false,
            held_up_by_commits: false,
            silent: true,
            version: evil.clone(),
            address: evil.clone(),
            engine: evil.clone(),
            uptime_s: 1,
            open_round: 2,
            round_deposits: 3,
            participants: 4,
            connections: 5,
            log_bytes: 6,
            token_required: true,
            certificate_days: Some(3),
            peer_certificate_days: Some(300),
            seeds_left: 7,
            manifest_key_left: Some(9),
            manifest_key_missing: false,
            rounds: vec![RoundStatus {
                round: 77,
                phase: RoundPhase::Published,
                served: true,
                deposits: 31,
                bucket_elements: Some(12),
                mapping_bytes: Some(1234),
            }],
            node: Some(NodeStatus {
                number: 1,
                answers: false,
                follows: None,
                nodes: 3,
                leads: true,
                leader: Some(1),
            }),
            members: vec![MemberStatus {
                number: 2,
                address: evil,
                here: false,
                votes: true,
                leads: false,
                behind: Some(19),
                heard_ms: Some(250),
            }],
        }
    }

    #[test]
    fn whatever_is_shown_is_text_and_nothing_runs() {
        let page = page(&status(), &[("builds", 9)]);
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script"), "{page}");
        for shown in [
            "hears nothing",
            "ends in 3 days",
            "this node leads",
            ">77<",
            ">1234<",
            ">19<",
            "250 ms ago",
            ">9<",
        ] {
            assert!(page.contains(shown), "{shown}: {page}");
        }
        assert!(page.contains(&format!("<style>{STYLE}</style>")), "the policy knows another style");
        assert!(!page.contains(" style=") && !page.contains("href") && !page.contains("src="), "{page}");
        assert!(
            policy().starts_with("default-src 'none'; style-src 'sha256-") && !policy().contains("unsafe")
        );
    }
}
