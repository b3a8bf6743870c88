//! Whether another user may have changed a file or directory that this program has written.
//!
//! A path counts as the user's if everybody who can change it, or a directory above it, is this user or root:
//!
//! - its owner is this user, root, or the owner of `/`, who can replace everything (below `unshare -r`, that is a user
//!   without a name);
//! - not every user can write it, except in a directory with the sticky bit, as `/tmp` has, in which only the owner of a
//!   file can replace it;
//! - no group can write it that may have another member. A private group, which many systems make for each user together
//!   with the umask 002, counts as its user: its name or number is the user's.
//!
//! [`VARIABLE`] names directories that may be changed by others, such as a store that a group shares.

#[cfg(unix)]
use std::collections::BTreeMap;
#[cfg(unix)]
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::sync::{Mutex, PoisonError};

use crate::env::Env;
use crate::root::Root;

/// The variable with directories, separated by colons, for which others are trusted.
pub const VARIABLE: &str = "CUDA_BUILD_TRUST";

/// What the user says about others.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// The directories in [`VARIABLE`].
    directories: Vec<PathBuf>,
    /// `PATH`, on which `getent` is.
    #[cfg(unix)]
    search_path: OsString,
}

/// Why a path is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distrust {
    /// The path itself, or a directory above it, and who else can change it: "/a can be written by every user".
    pub reason: String,
    /// What makes it usable.
    pub remedy: String,
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Trust {
    /// The directories that the user trusts others to change.
    pub fn from_env(env: &Env) -> Self {
        let value = env.get(VARIABLE).unwrap_or_default();
        let directories = std::env::split_paths(value);
        Self {
            directories: directories.filter(|path| path.is_absolute()).collect(),
            #[cfg(unix)]
            search_path: env.peek("PATH").unwrap_or_default().to_owned(),
        }
    }

    /// Why a path must not be used; `None` if it may be used. There need not be anything at the path.
    #[cfg(unix)]
    pub fn problem(&self, root: &Root, path: &Path) -> Option<Distrust> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let paths = paths_through_links(root, path);
        if paths.iter().any(|path| self.is_named(root, path)) {
            return None;
        }
        let users = match Users::read(root) {
            Ok(users) => users,
            Err(reason) => return Some(self.distrust(&paths[0], &reason, None)),
        };
        paths.iter().find_map(|path| {
            let mut places = path.ancestors().enumerate();
            places.find_map(|(level, place)| self.problem_of(root, place, level > 0, &users))
        })
    }

    /// The same for a path of a project, such as a view in its target directory. Whoever can write in the project decides
    /// what its build scripts do, so only the path and the directory above it are judged, and not by their groups.
    #[cfg(unix)]
    pub fn problem_in_project(&self, root: &Root, path: &Path) -> Option<Distrust> {
        use std::os::unix::fs::MetadataExt as _;
        let users = Users::read(root).ok()?;
        let parent = path.parent().unwrap_or(path);
        [(path, 0), (parent, STICKY)]
            .into_iter()
            .find_map(|(place, harmless_if)| {
                let metadata = root.metadata(place).ok()?;
                let is_open = metadata.mode() & 0o002 != 0 && metadata.mode() & harmless_if == 0;
                match users.are_trusted(metadata.uid()) {
                    true if is_open => {
                        Some(self.distrust(place, "can be written by every user", Some("o-w")))
                    }
                    true => None,
                    false => Some(self.foreign(place, metadata.uid(), &users)),
                }
            })
    }

    /// As [`Trust::problem`].
    #[cfg(not(unix))]
    pub fn problem_in_project(&self, root: &Root, path: &Path) -> Option<Distrust> {
        self.problem(root, path)
    }

    /// Owners and modes exist only on Unix. Elsewhere, what other users may have changed is not known.
    #[cfg(not(unix))]
    pub fn problem(&self, root: &Root, path: &Path) -> Option<Distrust> {
        if self.is_named(root, path) {
            return None;
        }
        let reason = "may have been changed by another user, which is not checked on this system";
        Some(self.distrust(path, reason, None))
    }

    /// Whether a path is in a directory that the user has named.
    fn is_named(&self, root: &Root, path: &Path) -> bool {
        let mut directories = self.directories.iter();
        directories.any(|directory| {
            path.starts_with(directory) || path.starts_with(root.resolve(directory))
        })
    }

    /// `chmod` is the mode that helps.
    fn distrust(&self, place: &Path, reason: &str, chmod: Option<&str>) -> Distrust {
        let place = place.display();
        let option = format!("`{VARIABLE}={place}` if you trust who can change it");
        Distrust {
            reason: format!("{place} {reason}"),
            remedy: match chmod {
                Some(mode) => format!("run `chmod {mode} {place}`, or set {option}"),
                None => format!("use another directory, or set {option}"),
            },
        }
    }
}

/// The path, and what it becomes when each link in it is followed. Whoever can write to a directory above a link can
/// replace the link.
#[cfg(unix)]
fn paths_through_links(root: &Root, path: PathBuf) -> Vec<PathBuf> {
    let mut paths = vec![path];
    // Linux follows at most 40 links.
    for _ in 0..40 {
        let last = &paths[paths.len() - 1];
        let mut from_root: Vec<&Path> = last.ancestors().collect();
        from_root.reverse();
        let Some(link) = from_root.into_iter().find(|place| root.is_link(place)) else {
            break;
        };
        let Some(target) = root.link_target(link) else {
            break;
        };
        let rest = last.strip_prefix(link).unwrap_or(Path::new(""));
        // Joining an empty path would add a slash.
        let next = match rest.as_os_str().is_empty() {
            true => target,
            false => target.join(rest),
        };
        paths.push(next);
    }
    paths
}

/// This user, and who counts as root.
#[cfg(unix)]
#[derive(Clone, Copy, Debug)]
struct Users {
    user: u32,
    owner_of_root_directory: u32,
}

#[cfg(unix)]
impl Users {
    fn read(root: &Root) -> Result<Self, String> {
        use std::os::unix::fs::MetadataExt as _;
        // The owner of this directory is the user of this process.
        let owner = |path: &str| {
            let metadata = root.metadata(Path::new(path));
            metadata.map(|metadata| metadata.uid())
        };
        let unknown = |error| format!("cannot be checked: the user is not known: {error}");
        Ok(Self {
            user: owner("/proc/self").map_err(unknown)?,
            owner_of_root_directory: owner("/").map_err(unknown)?,
        })
    }

    fn are_trusted(self, owner: u32) -> bool {
        owner == self.user || owner == 0 || owner == self.owner_of_root_directory
    }
}

/// In a directory with this bit, only the owner of a file can replace it.
#[cfg(unix)]
const STICKY: u32 = 0o1000;

#[cfg(unix)]
impl Trust {
    fn problem_of(
        &self,
        root: &Root,
        place: &Path,
        is_above: bool,
        users: &Users,
    ) -> Option<Distrust> {
        use std::io::ErrorKind::NotFound;
        use std::os::unix::fs::MetadataExt as _;
        let metadata = match root.metadata(place) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == NotFound => return None,
            Err(error) => {
                return Some(self.distrust(place, &format!("cannot be inspected: {error}"), None));
            }
        };
        let mode = metadata.mode();
        let owner_of_link = root.link_metadata(place).map(|link| link.uid());
        let owners = [Some(metadata.uid()), owner_of_link.ok()];
        let foreign = owners
            .into_iter()
            .flatten()
            .find(|owner| !users.are_trusted(*owner));
        if let Some(owner) = foreign {
            return Some(self.foreign(place, owner, users));
        }
        if is_above && mode & STICKY != 0 {
            return None;
        }
        if mode & 0o002 != 0 {
            return Some(self.distrust(place, "can be written by every user", Some("o-w")));
        }
        if mode & 0o020 != 0 {
            let members = self.other_members(root, metadata.gid(), users)?;
            let reason = format!("can be written by {members}");
            return Some(self.distrust(place, &reason, Some("g-w")));
        }
        None
    }

    fn foreign(&self, place: &Path, owner: u32, users: &Users) -> Distrust {
        let user = users.user;
        let reason = format!("belongs to user {owner}, neither to you (user {user}) nor to root");
        self.distrust(place, &reason, None)
    }

    /// The group for a sentence, if it may have other members than this user and root; `None` if it is private. The answer
    /// is kept, because each directory asks for it, and a directory service may be slow.
    fn other_members(&self, root: &Root, group: u32, users: &Users) -> Option<String> {
        static KNOWN: Mutex<BTreeMap<(PathBuf, u32), Option<String>>> = Mutex::new(BTreeMap::new());
        let key = (root.locate("/etc/group"), group);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(members) = known.get(&key) {
            return members.clone();
        }
        let members = self.read_other_members(root, group, users);
        known.insert(key, members.clone());
        members
    }

    fn read_other_members(&self, root: &Root, group: u32, users: &Users) -> Option<String> {
        let text = |path: &str| root.text(&root.locate(path)).unwrap_or_default();
        let local_users = text("/etc/passwd");
        let accounts: Vec<Account<'_>> = local_users.lines().filter_map(Account::parse).collect();
        let of_service;
        let own = match accounts.iter().find(|it| it.id == users.user) {
            Some(own) => Some(own.name),
            None => {
                of_service = self.of_service("passwd", users.user);
                of_service
                    .lines()
                    .find_map(Account::parse)
                    .map(|own| own.name)
            }
        };
        let is_trusted = |name: &str| {
            let mut accounts = accounts.iter();
            own == Some(name) || accounts.any(|it| it.name == name && users.are_trusted(it.id))
        };
        let groups = text("/etc/group");
        let mut local_groups = groups.lines().filter_map(Group::parse);
        let from_service;
        let known = match local_groups.find(|it| it.id == group) {
            Some(known) => Some(known),
            None => {
                from_service = self.of_service("group", group);
                from_service.lines().find_map(Group::parse)
            }
        };
        let Some(known) = known else {
            // In a container, a user may have no name. Then a group of the same number is the user's.
            let is_own = group == users.user;
            return (!is_own).then(|| format!("group {group}, whose members are not known"));
        };
        let name = known.name;
        let primary = accounts
            .iter()
            .filter(|it| it.group == group && !users.are_trusted(it.id))
            .map(|it| it.name);
        let listed = known.members.iter().copied();
        let mut others = listed.filter(|name| !is_trusted(name)).chain(primary);
        if let Some(other) = others.next() {
            return Some(format!(
                "group `{name}`, which has other members, such as `{other}`"
            ));
        }
        // A directory service may have users whose first group it is, and that are not listed.
        let is_private = group == 0 || group == users.user || own == Some(name);
        (!is_private).then(|| format!("group `{name}`, which may have other members"))
    }

    /// The entry of a user or a group that is in no local file, from the system's directory service.
    fn of_service(&self, database: &str, number: u32) -> String {
        let number = number.to_string();
        let getent = crate::command::Invocation::new("getent").args([database, number.as_str()]);
        let env = Env::from_pairs([("PATH", &self.search_path)]);
        let finished = getent.query(&env);
        finished.map(|finished| finished.stdout).unwrap_or_default()
    }
}

/// A line of `/etc/passwd`: `name:x:1000:100:…`.
#[cfg(unix)]
struct Account<'a> {
    name: &'a str,
    id: u32,
    group: u32,
}

#[cfg(unix)]
impl<'a> Account<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let id = fields.nth(1)?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        Some(Self { name, id, group })
    }
}

/// A line of `/etc/group`: `name:x:100:member,member`.
#[cfg(unix)]
struct Group<'a> {
    name: &'a str,
    id: u32,
    members: Vec<&'a str>,
}

#[cfg(unix)]
impl<'a> Group<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let id = fields.nth(1)?.parse().ok()?;
        let members = fields.next().unwrap_or_default().split(',');
        Some(Self {
            name,
            id,
            members: members.filter(|name| !name.is_empty()).collect(),
        })
    }
}

#[cfg(unix)]
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "prepares real files")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

    use super::*;

    /// A directory for a path that is checked, below directories that only this user can change. The names of users and
    /// groups are in `etc`.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new(passwd: &str, group: &str) -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            for directory in ["etc", "home/cache/store"] {
                fs::create_dir_all(place.path(directory)).unwrap();
            }
            fs::write(place.path("etc/passwd"), passwd).unwrap();
            fs::write(place.path("etc/group"), group).unwrap();
            place
        }

        fn path(&self, below: &str) -> PathBuf {
            self.0.path().join(below)
        }

        fn set_mode(&self, below: &str, mode: u32) {
            fs::set_permissions(self.path(below), fs::Permissions::from_mode(mode)).unwrap();
        }

        fn problem_with(&self, trust: &Trust) -> Option<String> {
            let problem =
                trust.problem(&Root::below(self.0.path()), &self.path("home/cache/store"));
            problem.map(|it| format!("{it}; {}", it.remedy))
        }

        fn problem(&self) -> Option<String> {
            self.problem_with(&Trust::default())
        }
    }

    fn user_and_group() -> (u32, u32) {
        let directory = tempfile::tempdir().unwrap();
        let metadata = fs::metadata(directory.path()).unwrap();
        (metadata.uid(), metadata.gid())
    }

    #[test]
    fn modes_of_every_directory_count() {
        let (user, group) = user_and_group();
        let passwd = format!("me:x:{user}:{group}:::\nother:x:1001:2001:::\n");
        let private = format!("me:x:{group}:\n");
        let with_members = format!("team:x:{group}:me,other\n");
        let of_primary = format!("team:x:{group}:\n");
        let passwd_of_team = format!("me:x:{user}:{group}:::\nother:x:1001:{group}:::\n");
        // The directory, its mode, the users, the groups, and the reason.
        for (directory, mode, passwd, group, reason) in [
            ("home/cache/store", 0o755, &passwd, &private, None),
            // The umask 002, with a private group.
            ("home/cache/store", 0o775, &passwd, &private, None),
            ("home/cache/store", 0o2775, &passwd, &private, None),
            (
                "home/cache/store",
                0o775,
                &passwd,
                &with_members,
                Some("such as `other`"),
            ),
            (
                "home/cache/store",
                0o775,
                &passwd_of_team,
                &of_primary,
                Some("such as `other`"),
            ),
            (
                "home",
                0o775,
                &passwd,
                &with_members,
                Some("home can be written by group `team`"),
            ),
            (
                "home/cache",
                0o777,
                &passwd,
                &private,
                Some("cache can be written by every user"),
            ),
            // Such as `/tmp`: other users cannot replace the directory below it.
            ("home/cache", 0o1777, &passwd, &private, None),
            ("home/cache", 0o1775, &passwd, &with_members, None),
            (
                "home/cache/store",
                0o1777,
                &passwd,
                &private,
                Some("by every user"),
            ),
        ] {
            let place = Place::new(passwd, group);
            place.set_mode(directory, mode);
            let found = place.problem();
            let is_right = match (&found, reason) {
                (Some(found), Some(reason)) => found.contains(reason) && found.contains("chmod "),
                (found, reason) => found.is_none() && reason.is_none(),
            };
            assert!(is_right, "{directory} {mode:o} {group}: {found:?}");
            let named = Trust::from_env(&Env::from_pairs([(VARIABLE, place.path("home/cache"))]));
            assert_eq!(place.problem_with(&named), None, "{directory} {mode:o}");
        }
    }

    /// Runs as root alone, who can give files to others: a container's HOME of another user, NFS that squashes root.
    #[test]
    fn files_of_other_users_are_refused() {
        let (user, _) = user_and_group();
        for (path, owner) in [("home", 1001), ("home/cache/store", 65534)] {
            let place = Place::new("", "");
            let given = chown(place.path(path), Some(owner), None);
            if user != 0 {
                assert!(given.is_err());
                continue;
            }
            let reason = place.problem().unwrap();
            let expected = format!("belongs to user {owner}, neither to you (user 0) nor to root");
            assert!(
                reason.contains(&expected) && reason.contains(VARIABLE),
                "{reason}"
            );
        }
    }

    /// As root alone, which can give a file to any group.
    #[test]
    fn only_a_private_group_counts_as_its_user() {
        let (user, _) = user_and_group();
        let passwd = format!("me:x:{user}:{user}:::\n");
        for (group, is_private) in [
            ("me:x:4321:\n", true),
            ("me:x:4321:me\n", true),
            // Users of a directory service may have it as their first group.
            ("users:x:4321:\n", false),
            ("users:x:4321:me\n", false),
            ("", false),
        ] {
            // A place of its own, because the members of a group are kept.
            let place = Place::new(&passwd, group);
            place.set_mode("home", 0o775);
            let given = chown(place.path("home"), None, Some(4321));
            if user == 0 {
                given.unwrap();
                assert_eq!(place.problem().is_none(), is_private, "{group:?}");
            } else {
                assert!(given.is_err());
            }
        }
    }

    #[test]
    fn every_link_on_the_way_is_judged() {
        let leads_into_open = [("open/store", "home/cache/store")];
        let passes_through_open = [("open/second", "home/cache/store"), ("real", "open/second")];
        for links in [&leads_into_open[..], &passes_through_open[..]] {
            let place = Place::new("", "");
            fs::create_dir(place.path("open")).unwrap();
            fs::create_dir(place.path("open/store")).unwrap();
            fs::create_dir(place.path("real")).unwrap();
            fs::remove_dir(place.path("home/cache/store")).unwrap();
            for (target, link) in links {
                std::os::unix::fs::symlink(place.path(target), place.path(link)).unwrap();
            }
            assert_eq!(place.problem(), None, "{links:?}");

            place.set_mode("open", 0o777);
            let reason = place.problem().unwrap();
            assert!(
                reason.contains("open can be written by every user"),
                "{links:?}: {reason}"
            );
        }
    }

    #[test]
    fn what_does_not_exist_is_judged_by_the_directories_above() {
        let place = Place::new("", "");
        fs::remove_dir(place.path("home/cache/store")).unwrap();
        assert_eq!(place.problem(), None);
        place.set_mode("home", 0o777);
        assert!(place.problem().is_some());
        let below_a_file =
            Trust::default().problem(&Root::system(), Path::new("/proc/self/exe/below"));
        assert!(below_a_file.is_some());
    }
}
