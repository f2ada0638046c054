//! Attaches PFC to an interface, and detaches it.
//!
//! ```text
//! load ─▶ clsact and program at ingress ─▶ register the kind ─▶ root qdisc ─▶ unregister
//! ```
//! The qdisc comes last: an attachment that is killed half-way leaves at most a program that
//! consumes PFC frames, which the kernel would have ignored, and the next attach or detach replaces
//! it. A map of the program keeps the root qdisc that is replaced ([`crate::root_qdisc`]). The
//! kernel revokes a registration whose process has ended.

use libbpf_rs::query::ProgramInfo;

use crate::bpf_object::{Loaded, attached_program, detach_filter, remove_clsact, set_value_of, value_of};
use crate::clsact::others;
use crate::error::Error;
use crate::kernel_support::missing;
use crate::netlink::{RootQdisc, RtNetlink};
use crate::root_qdisc::SavedQdisc;
use crate::settings::{Settings, replace_no_drop};

/// Which root qdisc an attachment replaces, other than the kernel's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// None.
    No,
    /// Ours, or one that [`detach`] can restore.
    Restorable,
    /// Any.
    Any,
}

/// The result of an attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// Interface index.
    pub ifindex: u32,
    /// Number of the program that was attached, which no other attachment has.
    pub program: u32,
    /// The root qdisc that was replaced: ours, or a kind that an administrator configured.
    pub replaced: RootQdisc,
    /// Why [`detach`] cannot restore it.
    pub unrestorable: Option<String>,
}

/// The result of a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// The kind of the root qdisc that an administrator had configured, if ours had replaced one.
    pub before: Option<String>,
    /// Why it could not be restored; the interface then has the kernel's default.
    pub unrestored: Option<String>,
}

/// Makes `device` honor PFC.
///
/// # Errors
/// There is no such interface; it has a root qdisc that an administrator configured, or ours, which
/// `replace` does not cover; the kernel lacks support, or permission is denied.
pub fn attach(device: &str, settings: &Settings, replace: Replace) -> Result<Attached, Error> {
    settings.check()?;
    let links = RtNetlink::connect()?;
    let ifindex = links.find(device)?.index;
    let qdiscs = links.qdiscs(ifindex)?;
    let before = attached_program(ifindex);
    match &qdiscs.root {
        RootQdisc::Foreign(kind) if replace == Replace::No => {
            return Err(Error::ForeignQdisc { device: device.to_owned(), kind: kind.clone() });
        }
        // A partial attachment of ours is no reason to stop: a killed attachment leaves one.
        RootQdisc::Ours if replace == Replace::No && before.is_some() => {
            return Err(Error::AlreadyAttached { device: device.to_owned() });
        }
        _ => {}
    }
    if let Some(finding) = missing() {
        return Err(Error::Kernel { missing: finding.what, cure: finding.cure });
    }
    let (saved, unrestorable) = match &qdiscs.root {
        RootQdisc::Default => (None, None),
        RootQdisc::Ours => (before.as_ref().and_then(replaced_by), None),
        RootQdisc::Foreign(_) => keep(device, ifindex, replace)?,
    };
    let made_clsact = match &before {
        Some(program) => made_clsact(&value_of(program, "nic_settings")?),
        None => !qdiscs.has_clsact,
    };
    let mut loaded = Loaded::new(settings, ifindex, made_clsact, &SavedQdisc::record(saved.as_ref()))?;
    loaded.attach_filter(ifindex, !qdiscs.has_clsact)?;
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
    let program = attached_program(ifindex).map_or(0, |program| program.id);
    Ok(Attached { ifindex, program, replaced: qdiscs.root, unrestorable })
}

/// Reads the root qdisc of an administrator, to restore it later. If it cannot be restored, returns
/// the reason, or fails unless any may be replaced.
fn keep(device: &str, ifindex: u32, replace: Replace) -> Result<(Option<SavedQdisc>, Option<String>), Error> {
    let Some(saved) = SavedQdisc::read(ifindex)? else { return Ok((None, None)) };
    match saved.obstacle(ifindex) {
        None => Ok((Some(saved), None)),
        Some(why) if replace == Replace::Any => Ok((None, Some(why))),
        Some(why) => Err(Error::Unrestorable { device: device.to_owned(), kind: saved.kind(), why }),
    }
}

/// Returns the root qdisc that the qdisc of this program has replaced.
fn replaced_by(program: &ProgramInfo) -> Option<SavedQdisc> {
    SavedQdisc::from_record(&value_of(program, "nic_replaced").ok()?)
}

/// Removes our qdisc and program from `device`, and restores the root qdisc of before. The kernel
/// drops the frames that ours still holds.
///
/// # Errors
/// There is no such interface, or it has nothing of ours, or removal is not permitted.
pub fn detach(device: &str) -> Result<Detached, Error> {
    let links = RtNetlink::connect()?;
    let ifindex = links.find(device)?.index;
    let is_ours = links.qdiscs(ifindex)?.root == RootQdisc::Ours;
    let program = attached_program(ifindex);
    if !is_ours && program.is_none() {
        return Err(Error::NotAttached { device: device.to_owned() });
    }
    // The program keeps running until the qdisc has been removed, so that frames sent until then
    // still honor PFC.
    let saved = program.as_ref().filter(|_| is_ours).and_then(replaced_by);
    let before = saved.as_ref().map(SavedQdisc::kind);
    let unrestored =
        saved.map_or(Ok(()), |saved| saved.restore(ifindex)).err().map(|error| error.to_string());
    if is_ours && (before.is_none() || unrestored.is_some()) {
        links.remove_root(ifindex)?;
    }
    if let Some(program) = program {
        clean(&links, ifindex, made_clsact(&value_of(&program, "nic_settings")?))?;
    }
    Ok(Detached { before, unrestored })
}

/// Sets the priorities whose pauses `device` honors from now on, as a mask, in the attachment with
/// this program ([`Attached::program`]). Frames that a pause of another priority holds are sent
/// when the pause would have ended, or with the next frame.
///
/// # Errors
/// There is no such interface, or that attachment is gone or replaced, or access is not permitted.
pub fn set_no_drop(device: &str, program: u32, no_drop: u8) -> Result<(), Error> {
    let links = RtNetlink::connect()?;
    let ifindex = links.find(device)?.index;
    let is_ours = links.qdiscs(ifindex)?.root == RootQdisc::Ours;
    let program = attached_program(ifindex).filter(|found| is_ours && found.id == program);
    let program = program.ok_or_else(|| Error::Lost { device: device.to_owned() })?;
    let mut bytes = value_of(&program, "nic_settings")?;
    let Some((before, _)) = Settings::from_bytes(&bytes) else {
        return Err(Error::system("reading the settings", "attached by another version of Sluice"));
    };
    if before.no_drop == no_drop {
        return Ok(());
    }
    replace_no_drop(&mut bytes, no_drop);
    set_value_of(&program, "nic_settings", &bytes)
}

/// Removes the program, and clsact if we created it and nobody else uses it.
fn clean(links: &RtNetlink, ifindex: u32, made_clsact: bool) -> Result<(), Error> {
    // In one call, so that a process killed in between does not leave a clsact without a filter.
    if made_clsact && others(links, ifindex)? == 0 { remove_clsact(ifindex) } else { detach_filter(ifindex) }
}

fn made_clsact(settings: &[u8]) -> bool {
    Settings::from_bytes(settings).is_some_and(|(_, made)| made)
}
