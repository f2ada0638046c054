//! An interface is made to obey PFC, and made to stop.
//!
//! ```text
//! load ─▶ clsact and program at ingress ─▶ register the kind ─▶ root qdisc ─▶ unregister
//! ```
//! The qdisc comes last: an attachment that is killed half-way leaves at most a program that
//! swallows PFC frames, which the kernel would have ignored, and the next attach or detach takes
//! its place. The kernel takes back a registration whose process is gone.

use crate::bpf_object::{Loaded, hanging, remove_clsact, unhang, value_of};
use crate::error::Error;
use crate::kernel_support::missing;
use crate::netlink::{Links, RootQdisc};
use crate::settings::Settings;

/// What was attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// The interface's number.
    pub ifindex: u32,
    /// What it had before: ours, or a kind that somebody chose.
    pub replaced: RootQdisc,
}

/// Makes `device` obey PFC.
///
/// # Errors
/// There is no such interface; it has a root qdisc that somebody chose, or ours, and `replace` is
/// false; the kernel cannot do it, or does not let us.
pub fn attach(device: &str, settings: &Settings, replace: bool) -> Result<Attached, Error> {
    settings.check()?;
    let links = Links::connect()?;
    let ifindex = links.find(device)?.index;
    let qdiscs = links.qdiscs(ifindex)?;
    let before = hanging(ifindex);
    match &qdiscs.root {
        RootQdisc::Foreign(kind) if !replace => {
            return Err(Error::ForeignQdisc { device: device.to_owned(), kind: kind.clone() });
        }
        // Half of ours is no reason to stop: it is what a killed attachment left.
        RootQdisc::Ours if !replace && before.is_some() => {
            return Err(Error::AlreadyAttached { device: device.to_owned() });
        }
        _ => {}
    }
    if let Some(finding) = missing() {
        return Err(Error::Kernel { missing: finding.what, cure: finding.cure });
    }
    let made_clsact = match &before {
        Some(program) => made_clsact(&value_of(program, "nic_settings")?),
        None => !qdiscs.has_clsact,
    };
    let mut loaded = Loaded::new(settings, ifindex, made_clsact)?;
    loaded.hang(ifindex, !qdiscs.has_clsact)?;
    let done = loaded.register().and_then(|kind| {
        let added = links.set_root(ifindex, qdiscs.free_number);
        drop(kind);
        added
    });
    if let Err(error) = done {
        // As it was, as far as it goes: the program of an earlier attachment is gone, so its qdisc goes
        // too.
        if qdiscs.root == RootQdisc::Ours {
            let _ = links.remove_root(ifindex);
        }
        let _ = clean(&links, ifindex, made_clsact);
        return Err(error);
    }
    Ok(Attached { ifindex, replaced: qdiscs.root })
}

/// Takes everything of ours off `device`. The kernel drops the frames that the qdisc still holds.
///
/// # Errors
/// There is no such interface, or nothing of ours on it, or no right to take it off.
pub fn detach(device: &str) -> Result<(), Error> {
    let links = Links::connect()?;
    let ifindex = links.find(device)?.index;
    let is_ours = links.qdiscs(ifindex)?.root == RootQdisc::Ours;
    let program = hanging(ifindex);
    if !is_ours && program.is_none() {
        return Err(Error::NotAttached { device: device.to_owned() });
    }
    // The program keeps listening until the qdisc is gone: what is sent until then is sent as it should
    // be.
    if is_ours {
        links.remove_root(ifindex)?;
    }
    match program {
        Some(program) => clean(&links, ifindex, made_clsact(&value_of(&program, "nic_settings")?)),
        None => Ok(()),
    }
}

/// Takes the program off, and clsact if we made it and nobody else uses it.
fn clean(links: &Links, ifindex: u32, made_clsact: bool) -> Result<(), Error> {
    // In one call, so that nobody who is killed in between leaves a clsact that nothing hangs at.
    if made_clsact && links.others(ifindex)? == 0 { remove_clsact(ifindex) } else { unhang(ifindex) }
}

fn made_clsact(settings: &[u8]) -> bool {
    Settings::from_bytes(settings).is_some_and(|(_, made)| made)
}
