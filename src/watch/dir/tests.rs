use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signpost_plan::{NodeName, World};

use super::*;

/// Longer than this nothing takes that works.
const PATIENCE: Duration = Duration::from_secs(10);

/// A folder that is followed, and what it said.
struct Followed {
    root: PathBuf,
    dir: Dir,
    world: World,
    /// Services that ever went.
    went: BTreeSet<String>,
}

fn folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // A name that quoting and encoding could spoil.
    let name = format!("signpost dir ☃ {} {count}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir(&path).unwrap();
    path
}

/// A Service at port `port`.
fn service(name: &str, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: demo}}\n\
         spec:\n  type: LoadBalancer\n  loadBalancerIP: 192.0.2.1\n  ports:\n  - port: {port}\n"
    )
}

impl Followed {
    fn new(files: &[(&str, &str)]) -> Self {
        let above = folder();
        let root = above.join("manifests");
        std::fs::create_dir(&root).unwrap();
        for (name, text) in files {
            std::fs::write(root.join(name), text).unwrap();
        }
        Self::at(root)
    }

    fn at(root: PathBuf) -> Self {
        let dir = Dir::open(&root).unwrap();
        let world = World::new(NodeName("n".into()));
        let mut new = Self { root, dir, world, went: BTreeSet::new() };
        new.step(|dir, out| dir.scan(out));
        new
    }

    fn step(&mut self, step: impl FnOnce(&mut Dir, &mut dyn FnMut(SourceEvent))) {
        let mut changes = Vec::new();
        step(&mut self.dir, &mut |e| {
            let SourceEvent::Changes(more) = e else { panic!("{e:?}") };
            changes.extend(more);
        });
        for change in changes {
            if let Change::ServiceGone(key) = &change {
                self.went.insert(key.to_string());
            }
            self.world.apply(change);
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn append(&self, name: &str, text: &str) {
        let file = std::fs::File::options().append(true).open(self.path(name));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// The Services with their ports, as `web:80`.
    fn services(&self) -> Vec<String> {
        self.world.services().map(|s| format!("{}:{}", s.key.name, s.ports[0].port)).collect()
    }

    fn said(&self) -> String {
        self.dir.diagnostics().iter().map(|d| format!("{d}\n")).collect()
    }

    /// Waits for what happens until `seen`.
    fn until(&mut self, what: &str, seen: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !seen(self) {
            let now = Instant::now();
            assert!(now < end, "{what}: {:?}\n{}", self.services(), self.said());
            let wake = self.dir.deadline().map_or(end, |d| d.min(end));
            let left = wake.saturating_duration_since(now).as_millis() + 1;
            let timeout = PollTimeout::try_from(left).unwrap();
            poll(&mut [PollFd::new(self.dir.as_fd(), PollFlags::POLLIN)], timeout).unwrap();
            self.step(|dir, out| {
                dir.turn(out);
            });
        }
    }

    fn until_services(&mut self, wished: &[&str]) {
        self.until(&wished.join(" "), |f| f.services() == wished);
    }

    /// Waits until everything that was done so far is seen and nothing waits to settle.
    fn until_quiet(&mut self) {
        self.write("zz-marker.yaml", &service("zz-marker", 1));
        self.until("the marker", |f| f.services().contains(&"zz-marker:1".to_owned()));
        std::fs::remove_file(self.path("zz-marker.yaml")).unwrap();
        self.until("the marker's end", |f| !f.services().contains(&"zz-marker:1".to_owned()));
        self.until("quiet", |f| f.dir.deadline().is_none());
        self.went.remove("demo/zz-marker");
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.root.parent().unwrap());
    }
}

#[test]
fn files_are_followed_as_they_come_change_and_go() {
    let mut f = Followed::new(&[("web.yaml", &service("web", 80)), ("notes.txt", "no manifest")]);
    assert_eq!(f.services(), ["web:80"]);
    f.write("web.yaml", &service("web", 81));
    f.until_services(&["web:81"]);
    std::fs::create_dir_all(f.path("more/below")).unwrap();
    f.write("more/below/api.json", r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "api", "namespace": "demo"}, "spec": {"ports": [{"port": 90}]}}"#);
    f.until_services(&["api:90", "web:81"]);
    std::fs::remove_file(f.path("web.yaml")).unwrap();
    f.until_services(&["api:90"]);
    std::fs::remove_dir_all(f.path("more")).unwrap();
    f.until_services(&[]);
    assert_eq!(f.said(), "");
}

#[test]
fn a_file_of_the_same_size_and_instant_is_read_again() {
    let mut f = Followed::new(&[("web.yaml", &service("web", 80))]);
    for port in 81..99 {
        f.write("web.yaml", &service("web", port));
        f.until_services(&[&format!("web:{port}")]);
    }
}

#[test]
fn an_editor_moves_the_old_file_aside() {
    let mut f = Followed::new(&[("web.yaml", &service("web", 80))]);
    f.write(".web.yaml.swp", "not: [yaml");
    std::fs::rename(f.path("web.yaml"), f.path("web.yaml~")).unwrap();
    // The agent looks just now.
    f.until("the name is missed", |f| f.dir.deadline().is_some());
    assert_eq!(f.services(), ["web:80"]);
    f.write("web.yaml", &service("web", 81));
    std::fs::remove_file(f.path("web.yaml~")).unwrap();
    f.until_services(&["web:81"]);
    f.until_quiet();
    assert_eq!((f.services(), f.went.len()), (vec!["web:81".to_owned()], 0));
}

#[test]
fn a_new_file_that_is_long_in_the_writing_is_awaited() {
    let mut f = Followed::new(&[("web.yaml", &service("web", 80))]);
    std::fs::remove_file(f.path("web.yaml")).unwrap();
    let mut slow = std::fs::File::create(f.path("web.yaml")).unwrap();
    f.until_quiet();
    assert_eq!(f.services(), ["web:80"]);
    slow.write_all(service("web", 81).as_bytes()).unwrap();
    drop(slow);
    f.until_services(&["web:81"]);
    assert!(f.went.is_empty());
}

#[test]
fn a_shell_empties_a_file_and_writes_it_in_halves() {
    let both = service("web", 80) + "---\n" + &service("api", 90);
    let mut f = Followed::new(&[("all.yaml", &both)]);
    f.write("all.yaml", "");
    f.until("it is seen empty", |f| f.dir.deadline().is_some());
    f.append("all.yaml", &(service("web", 81) + "---\n"));
    // A half that is well-formed: it would withdraw what is still to come.
    let first = f.dir.deadline();
    f.until("the half is seen", |f| f.dir.deadline() != first);
    f.append("all.yaml", &service("api", 91));
    f.until_services(&["api:91", "web:81"]);
    assert!(f.went.is_empty(), "{:?}", f.went);
    // A file that stays empty holds nothing.
    f.write("all.yaml", "");
    f.until_services(&[]);
}

#[test]
fn a_file_is_not_read_while_it_is_written() {
    let both = service("web", 80) + "---\n" + &service("api", 90);
    let mut f = Followed::new(&[("all.yaml", &both)]);
    let mut slow = std::fs::File::create(f.path("all.yaml")).unwrap();
    slow.write_all(service("web", 81).as_bytes()).unwrap();
    // All names are looked at meanwhile.
    std::fs::create_dir(f.path("more")).unwrap();
    f.until_quiet();
    assert_eq!(f.services(), ["api:90", "web:80"]);
    slow.write_all(("---\n".to_owned() + &service("api", 91)).as_bytes()).unwrap();
    drop(slow);
    f.until_services(&["api:91", "web:81"]);
}

#[test]
fn a_config_map_swaps_its_data() {
    let mut f = Followed::new(&[]);
    let version = |f: &Followed, name: &str, port| {
        std::fs::create_dir(f.path(name)).unwrap();
        f.write(&format!("{name}/web.yaml"), &service("web", port));
        symlink(name, f.path("..data_tmp")).unwrap();
        std::fs::rename(f.path("..data_tmp"), f.path("..data")).unwrap();
    };
    version(&f, "..2026_01", 80);
    symlink("..data/web.yaml", f.path("web.yaml")).unwrap();
    f.until_services(&["web:80"]);
    version(&f, "..2026_02", 81);
    std::fs::remove_dir_all(f.path("..2026_01")).unwrap();
    f.until_services(&["web:81"]);
    f.until_quiet();
    assert!(f.went.is_empty());
}

#[test]
fn links_are_followed_to_where_they_lead() {
    let above = folder();
    let place = |name: &str| above.join(name);
    for (dir, port) in [("one", 80), ("two", 81)] {
        std::fs::create_dir(place(dir)).unwrap();
        std::fs::write(place(dir).join("web.yaml"), service("web", port)).unwrap();
    }
    std::fs::write(place("api.yaml.real"), service("api", 90)).unwrap();
    std::fs::create_dir(place("manifests")).unwrap();
    symlink("../one", place("manifests/current")).unwrap();
    symlink("../api.yaml.real", place("manifests/api.yaml")).unwrap();
    symlink("manifests", place("root")).unwrap();
    let mut f = Followed::at(place("root"));
    assert_eq!(f.services(), ["api:90", "web:80"]);
    // A directory's link is swapped.
    symlink("../two", place("manifests/current.new")).unwrap();
    std::fs::rename(place("manifests/current.new"), place("manifests/current")).unwrap();
    f.until_services(&["api:90", "web:81"]);
    // A file's target is written in place, and replaced.
    std::fs::write(place("api.yaml.real"), service("api", 91)).unwrap();
    f.until_services(&["api:91", "web:81"]);
    std::fs::write(place("new"), service("api", 92)).unwrap();
    std::fs::rename(place("new"), place("api.yaml.real")).unwrap();
    f.until_services(&["api:92", "web:81"]);
    // The root itself leads elsewhere.
    symlink("one", place("root.new")).unwrap();
    std::fs::rename(place("root.new"), place("root")).unwrap();
    f.until_services(&["web:80"]);
}

#[test]
fn a_directory_with_several_names_is_followed_by_its_own() {
    let above = folder();
    let root = above.join("manifests");
    std::fs::create_dir_all(root.join("v1")).unwrap();
    std::fs::write(root.join("v1/web.yaml"), service("web", 80)).unwrap();
    symlink("v1", root.join("a")).unwrap();
    symlink("v1", root.join("zcurrent")).unwrap();
    // Round in circles, in many ways.
    for name in ["l1", "l2", "v1/l3"] {
        symlink(&root, root.join(name)).unwrap();
    }
    let mut f = Followed::at(root);
    assert_eq!((f.services(), f.said()), (vec!["web:80".to_owned()], String::new()));
    f.write("v1/web.yaml", &service("web", 81));
    f.until_services(&["web:81"]);
    // By another of its names it is the same file.
    f.write("zcurrent/web.yaml", &service("web", 82));
    f.until_services(&["web:82"]);
    for name in ["a", "zcurrent", "l1"] {
        std::fs::remove_file(f.path(name)).unwrap();
    }
    f.write("v1/web.yaml", &service("web", 83));
    f.until_services(&["web:83"]);
    symlink("v1", f.path("again")).unwrap();
    f.until_quiet();
    f.write("v1/web.yaml", &service("web", 84));
    f.until_services(&["web:84"]);
    assert!(f.went.is_empty());
}

#[test]
fn a_file_that_is_cut_off_takes_nothing_away() {
    let good = service("web", 80) + "---\n" + &service("api", 90);
    let mut f = Followed::new(&[("all.yaml", &good)]);
    let cut = &good[..good.find("Balancer").unwrap()];
    f.write("all.yaml", cut);
    f.until("the error", |f| f.said().contains("error"));
    assert_eq!((f.services(), f.went.len()), (vec!["api:90".to_owned(), "web:80".to_owned()], 0));
    f.write("all.yaml", &service("web", 81));
    f.until_services(&["web:81"]);
}

#[test]
fn a_directory_that_goes_takes_nothing_with_it() {
    let mut f = Followed::new(&[("web.yaml", &service("web", 80)), ("x.yaml", &service("x", 1))]);
    std::fs::remove_dir_all(&f.root).unwrap();
    f.until("it is missed", |f| f.said().contains("the directory is gone"));
    assert_eq!(f.services(), ["web:80", "x:1"]);
    std::fs::create_dir(&f.root).unwrap();
    f.write("web.yaml", &service("web", 81));
    f.until_services(&["web:81"]);
    assert_eq!(f.went.iter().collect::<Vec<_>>(), ["demo/x"]);
    assert_eq!(f.said(), "");
    // With the directory above it, of which nothing tells.
    let above = f.root.parent().unwrap().to_path_buf();
    std::fs::remove_dir_all(&above).unwrap();
    f.until("it is missed", |f| f.said().contains("the directory is gone"));
    std::fs::create_dir_all(&f.root).unwrap();
    f.write("web.yaml", &service("web", 82));
    f.until_services(&["web:82"]);
}

#[test]
fn what_does_not_parse_keeps_its_last_good_objects() {
    let good = service("web", 80) + "---\n" + &service("api", 90);
    let mut f = Followed::new(&[("all.yaml", &good)]);
    let place = |line| format!("{}:{line}: error: ", f.path("all.yaml").display());
    let (syntax, port, name) = (place("3:12"), place("9:11"), place("2:1"));
    let cases = [
        // No YAML at all.
        (good.replacen("{name: web", "{name: web: x", 1), syntax.as_str(), ["api:90", "web:80"]),
        // A typo in one object: the other follows.
        (
            good.replacen("port: 80", "port: 8o", 1).replace("port: 90", "port: 91"),
            port.as_str(),
            ["api:91", "web:80"],
        ),
        // Nothing says which object it is: it may be the one that is missing.
        (
            good.replacen("name: web", "nam: web", 1).replace("port: 90", "port: 92"),
            "Service: metadata.name",
            ["api:92", "web:80"],
        ),
        (good.replacen("kind: Service\n", "", 1), name.as_str(), ["api:90", "web:80"]),
    ];
    for (text, said, services) in cases {
        f.write("all.yaml", &text);
        f.until(said, |f| f.said().contains("error"));
        let all = f.said();
        assert!(f.services() == services, "{said}: {:?}\n{all}", f.services());
        assert!(all.contains(said.split(':').next_back().unwrap()), "{said}: {all}");
        f.write("all.yaml", &good);
        f.until("mended", |f| f.said().is_empty());
    }
    std::fs::write(f.path("all.yaml"), b"apiVersion: v1\nkind: \xff\n").unwrap();
    f.until("not UTF-8", |f| f.said().contains("all.yaml: cannot be read"));
    std::fs::File::create(f.path("all.yaml")).unwrap().set_len(FILE_MAX + 1).unwrap();
    f.until("too large", |f| f.said().contains("is larger than 64 MiB"));
    assert_eq!(f.services(), ["api:90", "web:80"]);
    assert!(f.went.is_empty());
}

#[test]
fn an_object_in_two_files_counts_in_the_first() {
    let mut f = Followed::new(&[
        ("a.yaml", &("# below\n".to_owned() + &service("web", 80))),
        ("b.yaml", &service("web", 81)),
    ]);
    assert_eq!(f.services(), ["web:80"]);
    assert_eq!(
        f.said(),
        format!(
            "{b}:1:1: error: Service demo/web: is in {a}:2:1 too, and that one counts \
             (hint: delete one)\n",
            a = f.path("a.yaml").display(),
            b = f.path("b.yaml").display(),
        )
    );
    std::fs::remove_file(f.path("a.yaml")).unwrap();
    f.until_services(&["web:81"]);
    assert_eq!((f.said(), f.went.len()), (String::new(), 0));
    f.write("b.yaml", &(service("web", 82) + "---\n" + &service("web", 83)));
    f.until_services(&["web:82"]);
    let said = f.said();
    assert!(said.contains(".yaml:10:1: error: Service demo/web: is in line 1 of"), "{said}");
}

#[test]
fn a_kind_that_is_not_read_is_noted_once() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n";
    let f = Followed::new(&[("a.yaml", deployment), ("b.yaml", deployment)]);
    assert_eq!(f.said().matches("this kind is not read").count(), 1, "{}", f.said());
    assert_eq!(f.dir.emptiness(), None);
}

#[test]
fn a_source_that_cannot_be_says_what_to_do() {
    let f = Followed::new(&[("notes.txt", "")]);
    let why = f.dir.emptiness().unwrap();
    assert!(why.contains("no manifests") && why.contains(&f.root.display().to_string()), "{why}");
    let open = |name: &str| format!("{:#}", Dir::open(&f.path(name)).err().unwrap());
    assert!(open("notes.txt").contains("not a directory"));
    let missing = open("nowhere");
    assert!(missing.contains("nowhere: make it") && missing.contains("No such file"), "{missing}");
}
