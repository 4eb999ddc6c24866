//! What helps when something was refused or has failed, for errors that come from the rooms below and know no commands.

pub(crate) mod words;

use crate::home;
use crate::mounts;
use crate::output::quoted;
use rustix::io::Errno;
use std::error::Error;
use tenure_model::Refusal;
use tenure_mount::kernel::MountError;

/// Returns what would help against one cause of an error.
pub(crate) fn against(cause: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = cause.downcast_ref::<MountError>() {
        return Some(no_mount(error));
    }
    if let Some(tenure_wire::Error::Refused(Refusal::Held { by })) = cause.downcast_ref() {
        return Some(held(by));
    }
    if let Some(Refusal::Held { by }) = cause.downcast_ref() {
        return Some(held(by));
    }
    None
}

/// Returns what helps where a server, or what answers in its place, lets nobody in, by its words.
pub(crate) fn against_closed_door(why: &str) -> Option<String> {
    let told = |hint: &str| Some(hint.to_owned());
    if why.contains("no token was shown") {
        told("--token-file FILE, or TENURE_TOKEN; tenure token new NAME makes one, for the server's --tokens")
    } else if why.contains("token") {
        told("tenure token new NAME makes one; its line belongs into the server's --tokens FILE")
    } else if why.contains("speaks TLS") {
        told("--server HOST:PORT speaks TLS")
    } else if why.contains("does not speak TLS") {
        told("--server http://HOST:PORT speaks without, where nothing needs to be encrypted")
    } else if why.contains("nothing would be encrypted") {
        told("--server HOST:PORT speaks TLS; --unencrypted does without, where something else encrypts")
    } else if why.contains("is not trusted") {
        told(
            "--authorities FILE names who has signed it; without, a certificate is remembered when it is first seen",
        )
    } else if why.contains("is no server of drives") {
        told("tenure serve prints where it listens: is it this address?")
    } else if why.contains("there is no drive") {
        told(
            "tenure drive list shows those that there are; tenure drive create NAME, or mount --create, makes one",
        )
    } else if why.contains("use the same release") {
        told("tenure --version, here and there")
    } else {
        None
    }
}

/// Says how what another process holds becomes free.
pub(crate) fn held(by: &str) -> String {
    if let Some((_, server)) = by.split_once(", at ").filter(|(_, at)| at.starts_with("http")) {
        return format!("--server {server} reaches it there");
    }
    if let Some(host) = host_in(by).filter(|host| *host != home::host()) {
        let dir = by
            .split_once("mount at ")
            .map_or("DIR", |(_, dir)| dir.trim_end_matches(')'));
        return format!(
            "on {host}, tenure unmount {dir} frees it; here, --read-only looks at it, and tenure fork makes a branch of your own"
        );
    }
    let pid = by.split_once("process ").map(|(_, rest)| {
        rest.split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap_or_default()
    });
    let pid = pid.and_then(|digits| digits.parse().ok());
    match pid {
        Some(pid) => held_by_process(pid),
        None => "tenure status lists the mounts; tenure unmount DIR frees it".to_owned(),
    }
}

/// Says how what a process of this machine holds becomes free.
pub(crate) fn held_by_process(pid: u32) -> String {
    match mounts::of(pid) {
        Some(dir) => format!("tenure unmount {} frees it", quoted(dir)),
        None if mounts::detached(pid).is_some() => format!(
            "its mount was taken away, and it ends when the last file that is open there is closed; kill {pid} ends it within \
             seconds, and what was written by then is durable"
        ),
        None => format!("tenure unmount DIR frees it; or see what has it: ps -o pid,user,stat,args {pid}"),
    }
}

/// Returns the machine of who holds something, as owners and sessions say it: `... on HOST, ...` or `... on HOST (...)`.
fn host_in(by: &str) -> Option<&str> {
    let (_, behind) = by.split_once(" on ")?;
    behind.split([' ', ',']).next()
}

fn no_mount(error: &MountError) -> String {
    match error {
        MountError::NoFuse(_) => "modprobe fuse; ls -l /dev/fuse".to_owned(),
        MountError::Missing(dir) => format!("mkdir -p {}", quoted(dir)),
        MountError::NotDirectory(dir) => format!("ls -ld {}; choose an empty directory", quoted(dir)),
        MountError::NotEmpty(dir) => format!("tenure mount ... {} --hide-contents mounts over them", quoted(dir)),
        MountError::Busy(dir) | MountError::Stale(dir) => format!("tenure unmount {}", quoted(dir)),
        MountError::NoAccess { dir, .. } => format!("ls -ld {}", quoted(dir)),
        MountError::NotPermitted(_) => "apt-get install fuse3".to_owned(),
        MountError::Fusermount { dir, message } => by_fusermount(&quoted(dir), message),
        MountError::Refused {
            errno: Errno::MFILE | Errno::NFILE,
            ..
        } => "ulimit -n 65536".to_owned(),
        MountError::Refused { .. } => {
            "ls -l /dev/fuse shows a character device 10, 229 where mounting works; else: mknod -m 666 /dev/fuse c 10 229"
                .to_owned()
        }
        MountError::Protocol { .. } => "uname -r".to_owned(),
        MountError::Handshake(_) => "dmesg | tail".to_owned(),
        MountError::Thread(_) => "ulimit -u".to_owned(),
    }
}

/// Says what helps against a refusal of fusermount3, by its words.
fn by_fusermount(dir: &str, message: &str) -> String {
    if message.contains("user_allow_other") {
        "mount without --allow-other, or let root write the line user_allow_other into /etc/fuse.conf"
            .to_owned()
    } else if message.contains("/dev/fuse") {
        "ls -l /dev/fuse; users may mount where it is open to them: chmod 666 /dev/fuse, as root".to_owned()
    } else if message.contains("too many FUSE") {
        "tenure status lists the mounts; /etc/fuse.conf says how many there may be (mount_max)".to_owned()
    } else {
        format!(
            "ls -ld {dir} \"$(command -v fusermount3)\"; users mount on directories of their own, by a fusermount3 that is setuid root"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_machine_holds_is_freed_there() {
        let hint = held("ada on a-box-far-away (process 42, mount at /home/ada/my work)");
        assert!(
            hint.starts_with("on a-box-far-away, tenure unmount /home/ada/my work frees it"),
            "{hint}"
        );
        let hint = held("process 42 on a-box-far-away, at https://a-box-far-away:7430");
        assert_eq!(hint, "--server https://a-box-far-away:7430 reaches it there");
    }

    #[test]
    fn what_nobody_here_mounts_is_held_by_a_process() {
        let hint = held(&format!("process 4194305 on {}, at unix:/run/x", home::host()));
        assert!(
            hint.contains("tenure unmount DIR frees it") && hint.ends_with(" 4194305"),
            "{hint}"
        );
        assert!(held("somebody").contains("tenure unmount DIR frees it"));
    }
}
