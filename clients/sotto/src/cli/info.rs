//! What a server is and costs, for one who has no account there.

use core::time::Duration;

use indicatif::{DecimalBytes, HumanCount};
use serde_json::json;
use sotto_protocol::{RoundMode, ServerParameters};
use sotto_session::engine;
use sotto_wire::Info;

use super::account::ask;
use super::failure::Failure;
use super::options::InfoOptions;
use super::print::{object, result};
use sotto_participant::{RoundCost, rounds_to_arrive};
use sotto_session::ConnectionSettings;

/// For whom it is told what a round costs, if nothing else is asked for.
const PEOPLE: [u64; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn info(options: InfoOptions) -> Result<(), Failure> {
    let settings = ConnectionSettings::new(options.server);
    let (_, info) = ask(&settings).await?;
    let server = &info.parameters;
    let engine = &**engine(&settings.engines, server)?;
    let cost = |people| Some((people, RoundCost::expected(engine, server, people).ok()?));
    let costs: Vec<_> = match options.people {
        Some(people) => {
            let problem = || Failure::usage(format!("there is no round of {people} people at this server"));
            vec![cost(people).ok_or_else(problem)?]
        }
        None => PEOPLE.into_iter().filter_map(cost).collect(),
    };
    let seconds = seconds_of_texts(server, options.conversations);
    if options.json {
        tell_programs(&settings, &info, seconds, &costs)
    } else {
        tell_people(&settings, &info, options.conversations, seconds, &costs)
    }
}

/// Between which times texts arrive if nothing is lost, s, as a chat tells it.
fn seconds_of_texts(server: &ServerParameters, conversations: u8) -> [f64; 2] {
    let rounds = f64::from(rounds_to_arrive(server, conversations));
    [1.0, 2.0].map(|times| (times * rounds * f64::from(server.round_ms) / 1000.0).ceil())
}

/// Bytes in both directions of one who is online all day.
fn of_a_day(server: &ServerParameters, cost: &RoundCost) -> u64 {
    let rounds = DAY.as_millis() as u64 / u64::from(server.round_ms.max(1));
    rounds.saturating_mul(cost.up() + cost.down())
}

fn tell_people(
    settings: &ConnectionSettings,
    info: &Info,
    conversations: u8,
    [usual, most]: [f64; 2],
    costs: &[(u64, RoundCost)],
) -> Result<(), Failure> {
    let server = &info.parameters;
    let least = if server.mode == RoundMode::ClosedLoop { "at least " } else { "" };
    let round = f64::from(server.round_ms) / 1000.0;
    let joining = if info.token_required { "with a token from its operator" } else { "open to everybody" };
    let boxes = if server.retrieve == 1 { "box" } else { "boxes" };
    result(&format!("server\t{}", settings.address))?;
    result(&format!("joining\t{joining}"))?;
    result(&format!("privacy\t{}, {} bits of security", server.engine, server.security_bits))?;
    result(
        "\tit sees your address and when you are online; not with whom you talk, whether you do, or what you write",
    )?;
    result(&format!(
        "rounds\tof {least}{round} s; in each you send one box and fetch {} {boxes}, whether you talk or not",
        server.retrieve
    ))?;
    let rooms = if conversations == 1 { "conversation" } else { "conversations" };
    result(&format!(
        "texts\ttake about {usual} to {most} s with room for {conversations} {rooms} (--conversations), more if something is lost"
    ))?;
    let counted = if server.code.has_slots() { "accounts" } else { "people online" };
    result(&format!("{counted}\tup, a round\tdown, a round\ta day online\t30 days"))?;
    for (people, cost) in costs {
        let day = of_a_day(server, cost);
        let [up, down, day, month] = [cost.up(), cost.down(), day, day.saturating_mul(30)].map(DecimalBytes);
        result(&format!("{}\t{up}\t{down}\t{day}\t{month}", HumanCount(*people)))?;
    }
    Ok(())
}

fn tell_programs(
    settings: &ConnectionSettings,
    info: &Info,
    [usual, most]: [f64; 2],
    costs: &[(u64, RoundCost)],
) -> Result<(), Failure> {
    let server = &info.parameters;
    let costs: Vec<_> = costs
        .iter()
        .map(|(people, cost)| {
            json!({
                "people": people,
                "up_bytes": cost.up(),
                "down_bytes": cost.down(),
                "deposit_bytes": cost.deposit,
                "request_bytes": cost.request,
                "keys_bytes": cost.keys,
                "mapping_bytes": cost.mapping,
                "hint_bytes": cost.hint,
                "answer_bytes": cost.answer,
                "checks_bytes": cost.checks,
                "day_bytes": of_a_day(server, cost),
            })
        })
        .collect();
    object(&json!({
        "server": settings.address.to_string(),
        "token_required": info.token_required,
        "engine": server.engine,
        "security_bits": server.security_bits,
        "addressing": if server.code.has_slots() { "slots" } else { "labels" },
        "retrieve": server.retrieve,
        "round_ms": server.round_ms,
        "closed_loop": server.mode == RoundMode::ClosedLoop,
        "text_usual_s": usual,
        "text_most_s": most,
        "costs": costs,
    }))?;
    Ok(())
}
