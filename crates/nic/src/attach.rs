//! Attaches PFC to an interface, and detaches it.
//!
//! ```text
//! load ─▶ clsact and program at ingress ─▶ register the kind ─▶ root qdisc ─▶ unregister
//! ```
//! The qdisc comes last: an attachment that is killed half-way leaves at most a program that
//! consumes PFC frames, which the kernel would have ignored, and the next attach or detach replaces
//! it. The kernel revokes a registration whose process has ended.

use crate::bpf_object::{Loaded, hanging, remove_clsact, unhang, value_of};
use crate::error::Error;
use crate::kernel_support::missing;
use crate::netlink::{Links, RootQdisc};
use crate::settings::Settings;

/// The result of an attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// Interface index.
    pub ifindex: u32,
    /// The root qdisc that was replaced: ours, or a kind that an administrator configured.
    pub replaced: RootQdisc,
}

/// Makes `device` honor PFC.
///
/// # Errors
/// There is no such interface; it has a root qdisc that an administrator configured, or ours, and
/// `replace` is false; the kernel lacks support, or permission is denied.
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
        // A partial attachment of ours is no reason to stop: a killed attachment leaves one.
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
        // Restore the earlier state as far as possible: the program of an earlier attachment has
        // been replaced, so its qdisc is removed too.
        if qdiscs.root == RootQdisc::Ours {
            let _ = links.remove_root(ifindex);
        }
        let _ = clean(&links, ifindex, made_clsact);
        return Err(error);
    }
    Ok(Attached { ifindex, replaced: qdiscs.root })
}

/// Removes our qdisc and program from `device`. The kernel drops the frames that the qdisc still
/// holds.
///
/// # Errors
/// There is no such interface, or it has nothing of ours, or removal is not permitted.
pub fn detach(device: &str) -> Result<(), Error> {
    let links = Links::connect()?;
    let ifindex = links.find(device)?.index;
    let is_ours = links.qdiscs(ifindex)?.root == RootQdisc::Ours;
    let program = hanging(ifindex);
    if !is_ours && program.is_none() {
        return Err(Error::NotAttached { device: device.to_owned() });
    }
    // The program keeps running until the qdisc has been removed, so that frames sent until then
    // still honor PFC.
    if is_ours {
        links.remove_root(ifindex)?;
    }
    match program {
        Some(program) => clean(&links, ifindex, made_clsact(&value_of(&program, "nic_settings")?)),
        None => Ok(()),
    }
}

/// Removes the program, and clsact if we created it and nobody else uses it.
fn clean(links: &Links, ifindex: u32, made_clsact: bool) -> Result<(), Error> {
    // In one call, so that a process killed in between does not leave a clsact without a filter.
    if made_clsact && links.others(ifindex)? == 0 { remove_clsact(ifindex) } else { unhang(ifindex) }
}

fn made_clsact(settings: &[u8]) -> bool {
    Settings::from_bytes(settings).is_some_and(|(_, made)| made)
}
