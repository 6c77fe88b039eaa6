//! Acts 3, 4 and 6: the address moves, because it must or because somebody wants it to.

use std::time::Duration;

use serde_json::json;

use super::act::{Act, losses};
use crate::probe::{Fate, Pool};
use crate::stage::{CLIENT, VIP, Watch, ms, publish, settled};
use crate::{Error, Fault, Lab};

/// Three heartbeats of 100 ms, and the takeover itself.
const DETECTION: Duration = Duration::from_millis(320);

/// Established connections that are watched over a drain.
const ESTABLISHED: usize = 50;

/// How long one of them may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

const COLUMNS: [&str; 3] = ["what", "measured", "to reach"];

/// Act 3: the owner's cable is pulled.
pub fn cable_pulled(lab: &mut Lab) -> Result<Act, Error> {
    let mut act = Act::new(3, "The owner's cable is pulled", &COLUMNS);
    let owner = settled(lab)?;
    act.tell(format!(
        "{owner} owns {VIP}. Its cable is pulled while the client sends a datagram a millisecond and \
         200 new\nconnections a second. Members say every 100 ms that they live."
    ));
    let mut watch = Watch::start(lab)?;
    lab.fault(Fault::Link, &owner)?;
    let (new, after) = watch.other_claims(lab, &owner)?;
    let (udp, tcp) = watch.stop()?;
    act.row(
        [
            "another node claims the address".to_owned(),
            format!("{new} after {}", ms(after)),
            format!("<= {} ms", DETECTION.as_millis()),
        ],
        after <= DETECTION,
    );
    act.row(
        ["longest gap in the datagrams".to_owned(), format!("{} ms", udp.outage_ms), String::new()],
        udp.pods.len() == 2,
    );
    losses(&mut act, &udp, &tcp, false);
    lab.mend(Fault::Link, &owner)?;
    let stays = settled(lab)?;
    act.row(
        [
            "the cable is back: who owns the address".to_owned(),
            stays.clone(),
            format!("{new} still"),
        ],
        stays == new,
    );
    Ok(act)
}

/// Act 4: the owner is drained.
pub fn drained(lab: &mut Lab) -> Result<Act, Error> {
    let mut act = Act::new(4, "The owner is drained for maintenance", &COLUMNS);
    let owner = settled(lab)?;
    act.tell(format!(
        "{owner} owns {VIP}, and `signpost drain` runs on it under the same probes. The new owner \
         claims the\naddress first; the old one goes on forwarding what still reaches it."
    ));
    let mut pool = Pool::open(&lab.namespace(CLIENT)?, VIP, 80, ESTABLISHED, PATIENCE)?;
    let mut watch = Watch::start(lab)?;
    lab.ask(&owner, &json!({"request": "drain"}))?;
    let (new, after) = watch.other_claims(lab, &owner)?;
    let (udp, tcp) = watch.stop()?;
    act.row(
        [
            "another node claims the address".to_owned(),
            format!("{new} after {}", ms(after)),
            String::new(),
        ],
        new != owner,
    );
    losses(&mut act, &udp, &tcp, true);
    let fates = pool.fates(PATIENCE);
    let count = |fate| fates.iter().filter(|f| **f == fate).count();
    act.row(
        [
            "established connections that had to be reset".to_owned(),
            format!("{} of {}", count(Fate::Reset), fates.len()),
            "counted".to_owned(),
        ],
        true,
    );
    act.row(
        [
            "established connections left hanging".to_owned(),
            count(Fate::Silent).to_string(),
            "0".to_owned(),
        ],
        count(Fate::Silent) == 0,
    );
    lab.ask(&owner, &json!({"request": "undrain"}))?;
    settled(lab)?;
    Ok(act)
}

/// Act 6: the endpoint on the owner dies.
pub fn endpoints_die(lab: &mut Lab) -> Result<Act, Error> {
    let mut act = Act::new(6, "The owner's endpoint dies", &COLUMNS);
    let owner = settled(lab)?;
    let (dies, stays) = if owner == "node-b" { ("b1", "c1") } else { ("c1", "b1") };
    act.tell(format!(
        "{owner} owns {VIP}. Its pod {dies} is killed, and its endpoint goes from the EndpointSlice \
         as the\ncluster would do it. The address follows the endpoints: there is no black hole of \
         act 1."
    ));
    let mut watch = Watch::start(lab)?;
    lab.stop_pod(dies)?;
    publish(lab, &[stays])?;
    let (new, after) = watch.other_claims(lab, &owner)?;
    let (udp, tcp) = watch.stop()?;
    let right = lab.topology().pod(stays).is_some_and(|(node, _)| node.name == new);
    act.row(
        [
            "the address is claimed where an endpoint is".to_owned(),
            format!("{new} after {}", ms(after)),
            "the other node".to_owned(),
        ],
        right,
    );
    act.row(
        ["longest gap in the datagrams".to_owned(), format!("{} ms", udp.outage_ms), String::new()],
        udp.pods.len() == 2,
    );
    losses(&mut act, &udp, &tcp, false);
    let status = lab.status(&owner)?;
    let entry = status["addresses"].as_array().and_then(|a| a.first());
    let reason = entry.and_then(|a| a["reason"].as_str()).unwrap_or("none").to_owned();
    let said = format!("{owner} says why it does not announce it any more");
    act.row([said, reason.clone(), "NoLocalEndpoints".to_owned()], reason == "NoLocalEndpoints");
    Ok(act)
}
