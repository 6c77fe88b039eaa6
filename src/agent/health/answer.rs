//! Requests and answers, as Go's HTTP server and kube-proxy write them.

use std::fmt::Write;
use std::time::Instant;

use serde_json::json;
use signpost_plan::HealthCheck;

use super::Health;

/// Whom a connection asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// kube-proxy's own port.
    Proxy,
    /// A Service's `healthCheckNodePort`.
    Service(u16),
}

/// The whole answer to a request. Of a request only the method and the path count.
pub(super) fn answer(
    asked: Asked,
    request: &str,
    health: &Health,
    now: Instant,
    time: jiff::Timestamp,
) -> String {
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let healthy = health.is_healthy(now);
    let reply = match (asked, path) {
        (Asked::Proxy, "/healthz") => {
            let eligible = health.node_eligible;
            Reply::json(healthy && eligible, proxy(health, healthy, time, Some(eligible)))
        }
        (Asked::Proxy, "/livez") => Reply::json(healthy, proxy(health, healthy, time, None)),
        (Asked::Proxy, _) => Reply::NOT_FOUND,
        // Whatever path.
        (Asked::Service(port), _) => match health.checks.iter().find(|c| c.port == port) {
            Some(check) => service(check, healthy),
            None => Reply::NOT_FOUND,
        },
    };
    reply.written(method == "HEAD", time)
}

struct Reply {
    status: &'static str,
    headers: String,
    body: String,
}

impl Reply {
    const NOT_FOUND: Self =
        Self { status: "404 Not Found", headers: String::new(), body: String::new() };

    fn json(is_ok: bool, body: String) -> Self {
        let status = if is_ok { "200 OK" } else { "503 Service Unavailable" };
        let headers = "Content-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n";
        Self { status, headers: headers.into(), body }
    }

    /// The connection ends with it: a check needs no second request.
    fn written(mut self, is_head: bool, time: jiff::Timestamp) -> String {
        if self.body.is_empty() {
            self.headers =
                "Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
                    .into();
            self.body = "404 page not found\n".into();
        }
        let date = time.strftime("%a, %d %b %Y %H:%M:%S GMT");
        let length = self.body.len();
        let mut text = format!(
            "HTTP/1.1 {}\r\n{}Date: {date}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n",
            self.status, self.headers
        );
        if !is_head {
            text += &self.body;
        }
        text
    }
}

/// Both families are one agent's, and as healthy as it is.
fn proxy(
    health: &Health,
    healthy: bool,
    time: jiff::Timestamp,
    node_eligible: Option<bool>,
) -> String {
    let updated = health.updated;
    let ok = healthy && node_eligible.unwrap_or(true);
    // While all is well kube-proxy says "now".
    let last = if ok { time } else { updated };
    let mut body = format!("{{\"lastUpdated\":\"{last}\",\"currentTime\":\"{time}\",");
    if let Some(eligible) = node_eligible {
        let _ = write!(body, "\"nodeEligible\":{eligible},");
    }
    let family = format!("{{\"lastUpdated\":\"{updated}\",\"healthy\":{healthy}}}");
    let status = format!("{{\"IPv4\":{family},\"IPv6\":{family}}}");
    body + &format!("\"healthy\":{healthy},\"status\":{status}}}")
}

fn service(check: &HealthCheck, healthy: bool) -> Reply {
    let count = check.ready_here;
    let (namespace, name) = (json!(check.service.namespace), json!(check.service.name));
    let body = format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": {namespace},\n\t\t\"name\": {name}\n\t}},\n\
         \t\"localEndpoints\": {count},\n\t\"serviceProxyHealthy\": {healthy}\n}}"
    );
    let mut reply = Reply::json(count > 0 && healthy, body);
    // Go writes headers in the order of the alphabet.
    let _ = write!(reply.headers, "X-Load-Balancing-Endpoint-Weight: {count}\r\n");
    reply
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use signpost_plan::ServiceKey;

    use super::*;

    fn health(ready_here: usize) -> Health {
        let service = ServiceKey { namespace: "demo".into(), name: "web".into() };
        Health {
            checks: vec![HealthCheck { port: 31080, service, ready_here }],
            node_eligible: true,
            updated: jiff::Timestamp::new(0, 500_000_000).unwrap(),
            pending_since: None,
            told: Instant::now(),
        }
    }

    fn ask(asked: Asked, request: &str, health: &Health) -> String {
        let time = jiff::Timestamp::new(60, 0).unwrap();
        answer(asked, request, health, health.told, time)
    }

    #[test]
    fn a_service_says_how_many_are_ready_here() {
        let ready = ask(Asked::Service(31080), "GET /whatever HTTP/1.1\r\n\r\n", &health(2));
        assert_eq!(
            ready,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
             X-Content-Type-Options: nosniff\r\nX-Load-Balancing-Endpoint-Weight: 2\r\n\
             Date: Thu, 01 Jan 1970 00:01:00 GMT\r\nContent-Length: 111\r\nConnection: close\r\n\r\n\
             {\n\t\"service\": {\n\t\t\"namespace\": \"demo\",\n\t\t\"name\": \"web\"\n\t},\n\
             \t\"localEndpoints\": 2,\n\t\"serviceProxyHealthy\": true\n}"
        );
        let none = ask(Asked::Service(31080), "GET / HTTP/1.1\r\n\r\n", &health(0));
        assert!(none.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{none}");
        assert!(none.contains("X-Load-Balancing-Endpoint-Weight: 0\r\n"), "{none}");
        let head = ask(Asked::Service(31080), "HEAD / HTTP/1.1\r\n\r\n", &health(2));
        assert!(head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn the_proxy_says_how_it_is() {
        let mut h = health(1);
        let both = r#""status":{"IPv4":{"lastUpdated":"1970-01-01T00:00:00.5Z","healthy":true},"IPv6":{"lastUpdated":"1970-01-01T00:00:00.5Z","healthy":true}}}"#;
        let now = r#"{"lastUpdated":"1970-01-01T00:01:00Z","currentTime":"1970-01-01T00:01:00Z","#;
        let well = ask(Asked::Proxy, "GET /healthz HTTP/1.1\r\n\r\n", &h);
        assert!(well.starts_with("HTTP/1.1 200 OK\r\n"), "{well}");
        assert!(
            well.ends_with(&format!(r#"{now}"nodeEligible":true,"healthy":true,{both}"#)),
            "{well}"
        );
        let live = ask(Asked::Proxy, "GET /livez HTTP/1.1\r\n\r\n", &h);
        assert!(live.ends_with(&format!(r#"{now}"healthy":true,{both}"#)), "{live}");
        // About to be deleted: no new connections, and alive.
        h.node_eligible = false;
        let leaving = ask(Asked::Proxy, "GET /healthz?x HTTP/1.1\r\n\r\n", &h);
        assert!(leaving.starts_with("HTTP/1.1 503 "), "{leaving}");
        assert!(leaving.contains(r#"{"lastUpdated":"1970-01-01T00:00:00.5Z","#), "{leaving}");
        assert!(leaving.contains(r#""nodeEligible":false,"healthy":true"#), "{leaving}");
        assert!(ask(Asked::Proxy, "GET /livez HTTP/1.1\r\n\r\n", &h).contains(" 200 OK"));
        let other = ask(Asked::Proxy, "GET / HTTP/1.1\r\n\r\n", &h);
        assert!(other.starts_with("HTTP/1.1 404 Not Found\r\n"), "{other}");
        assert!(other.ends_with("404 page not found\n"), "{other}");
    }

    #[test]
    fn who_lags_behind_is_not_healthy() {
        let mut h = health(1);
        let later = |h: &Health, after| {
            let time = jiff::Timestamp::new(60, 0).unwrap();
            answer(Asked::Proxy, "GET /livez HTTP/1.1\r\n\r\n", h, h.told + after, time)
        };
        assert!(later(&h, Duration::from_secs(59)).contains(" 200 OK"));
        assert!(later(&h, Duration::from_secs(61)).contains(" 503 "), "control is silent");
        h.pending_since = Some(h.told);
        h.told += Duration::from_secs(50);
        assert!(later(&h, Duration::from_secs(9)).contains(" 200 OK"));
        let lags = later(&h, Duration::from_secs(11));
        assert!(lags.contains(" 503 ") && lags.contains(r#""healthy":false"#), "{lags}");
    }
}
