//! The control plane: certificates, etcd, the API server, its controllers and the scheduler, all in
//! the lab's namespace `control`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use signpost_lab::{Lab, Namespace, topology};

use crate::error::At;
use crate::{Components, Error};

/// Where ClusterIPs are from.
pub(crate) const SERVICE_CIDR: &str = "10.233.0.0/16";

/// The API server's port.
pub(crate) const API_PORT: u16 = 6443;

/// On a busy machine the API server takes 10 s; what is not there by then will not come.
pub(crate) const READY: Duration = Duration::from_secs(60);

/// How often something that starts is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Where the control plane's files are.
#[derive(Clone, Debug)]
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn of(lab: &Lab) -> Self {
        Self(lab.directory().join("cluster"))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// A kubeconfig, by whom it is for.
    pub(crate) fn kubeconfig(&self, of: &str) -> PathBuf {
        self.0.join(format!("pki/{of}.kubeconfig"))
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// Where a node's stand-in keeps the output of Pods of ours.
    pub(crate) fn pod_logs(&self, node: &str) -> PathBuf {
        self.0.join(node).join("logs")
    }

    pub(crate) fn log(&self, component: &str) -> PathBuf {
        self.logs().join(format!("{component}.log"))
    }

    /// For nobody else to read or write, whatever the umask.
    pub(crate) fn make(&self) -> Result<(), Error> {
        for folder in ["pki", "logs", "etcd"] {
            let folder = self.0.join(folder);
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&folder)
                .at(|| folder.display().to_string())?;
        }
        Ok(())
    }
}

/// Starts it, and waits until the API server says that it is ready.
pub(crate) fn start(
    lab: &Lab,
    components: &Components,
    address: Ipv4Addr,
    nodes: &[String],
) -> Result<(), Error> {
    let files = Files::of(lab);
    certify(components, &files, address, nodes)?;
    let ns = lab.namespace(topology::CONTROL)?;
    let (client, peer) = ("http://127.0.0.1:2379", "http://127.0.0.1:2380");
    let pki = |file: &str| files.0.join("pki").join(file).display().to_string();
    let run = |component: &str, args: &[&str]| run(&ns, components, &files, component, args);
    let etcd = run(
        "etcd",
        &[
            "--data-dir",
            &files.0.join("etcd").display().to_string(),
            "--listen-client-urls",
            client,
            "--advertise-client-urls",
            client,
            "--listen-peer-urls",
            peer,
            "--initial-advertise-peer-urls",
            peer,
            "--initial-cluster",
            &format!("default={peer}"),
            // What a cluster for tests loses with the machine's power is not missed.
            "--unsafe-no-fsync",
        ],
    )?;
    let api = run(
        "kube-apiserver",
        &[
            "--etcd-servers",
            client,
            "--service-cluster-ip-range",
            SERVICE_CIDR,
            "--secure-port",
            &API_PORT.to_string(),
            "--bind-address",
            "0.0.0.0",
            "--advertise-address",
            &address.to_string(),
            "--client-ca-file",
            &pki("ca.crt"),
            "--tls-cert-file",
            &pki("apiserver.crt"),
            "--tls-private-key-file",
            &pki("apiserver.key"),
            "--service-account-issuer",
            "https://kubernetes.default.svc",
            "--service-account-key-file",
            &pki("sa.pub"),
            "--service-account-signing-key-file",
            &pki("sa.key"),
            "--authorization-mode",
            "Node,RBAC",
            "--enable-admission-plugins",
            "NodeRestriction",
            // A test may write thousands of objects at once.
            "--max-requests-inflight",
            "2000",
            "--max-mutating-requests-inflight",
            "1000",
        ],
    )?;
    let mut started = [("etcd", etcd), ("kube-apiserver", api)];
    await_ready(&files, "kube-apiserver", READY, &mut started, || {
        let config = files.kubeconfig("admin").display().to_string();
        let ask = ["kubectl", "--kubeconfig", &config, "get", "--raw", "/readyz"];
        ns.command(&components.program().display().to_string(), &ask, "").is_ok()
    })?;
    let config = |of: &str| files.kubeconfig(of).display().to_string();
    reap(run(
        "kube-controller-manager",
        &[
            "--kubeconfig",
            &config("kube-controller-manager"),
            "--leader-elect=false",
            // Each controller with the role that it has in clusters of people.
            "--use-service-account-credentials",
            "--root-ca-file",
            &pki("ca.crt"),
            "--service-account-private-key-file",
            &pki("sa.key"),
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ],
    )?);
    let scheduler = config("kube-scheduler");
    reap(run("kube-scheduler", &["--kubeconfig", &scheduler, "--leader-elect=false"])?);
    for (_, child) in started {
        reap(child);
    }
    Ok(())
}

fn certify(
    components: &Components,
    files: &Files,
    address: Ipv4Addr,
    nodes: &[String],
) -> Result<(), Error> {
    let mut command = components.command("pki");
    command.arg("--directory").arg(files.0.join("pki"));
    command.args(["--control", &address.to_string(), "--service-cidr", SERVICE_CIDR]);
    command.args(["--server", &format!("https://{address}:{API_PORT}")]);
    command.args(nodes.iter().flat_map(|node| ["--node", node]));
    let output = command.output().at(|| components.program().display().to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command: "components pki".to_owned(),
        message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

/// Starts a component, with its output in its log.
pub(crate) fn run(
    ns: &Namespace,
    components: &Components,
    files: &Files,
    component: &str,
    args: &[&str],
) -> Result<Child, Error> {
    let args: Vec<String> =
        std::iter::once(component).chain(args.iter().copied()).map(str::to_owned).collect();
    Ok(ns.start(components.program(), &args, &files.log(component))?)
}

/// Waits for a program's end on a thread, so that it does not stay as a zombie. It is ended through
/// its namespace, not as a child.
pub(crate) fn reap(mut child: Child) {
    std::thread::spawn(move || child.wait());
}

/// Waits until `ready` is true, or one of the processes has ended.
pub(crate) fn await_ready(
    files: &Files,
    component: &str,
    patience: Duration,
    started: &mut [(&str, Child)],
    mut ready: impl FnMut() -> bool,
) -> Result<(), Error> {
    let deadline = Instant::now() + patience;
    while !ready() {
        for (name, child) in started.iter_mut() {
            if let Some(status) = child.try_wait().at(|| (*name).to_owned())? {
                return Err(failed(files, name, &format!("it ended with {status}")));
            }
        }
        if Instant::now() > deadline {
            return Err(failed(
                files,
                component,
                &format!("not ready in {} s", patience.as_secs()),
            ));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn failed(files: &Files, component: &str, message: &str) -> Error {
    let log = files.log(component);
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    let last = text.lines().rev().find(|l| !l.trim().is_empty());
    let message = last.map_or(message.to_owned(), |l| format!("{message}; it said: {l}"));
    Error::Component { component: component.to_owned(), message, log }
}

/// Whether an HTTP server of this namespace answers 200.
pub(crate) fn is_healthy(ns: &Namespace, port: u16, path: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(&answer[9..] == b"200")
    };
    ns.run(ask).is_ok_and(|answered| answered.unwrap_or(false))
}
