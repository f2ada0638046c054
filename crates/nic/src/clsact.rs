//! The program's attachment point at ingress: clsact and a filter of kind `bpf` in it, both
//! requested in one call.
//!
//! Rule: the kernel completes a system call before it ends the process, so a process that is killed
//! while attaching leaves both or neither. A clsact without a filter would be taken for another
//! owner's, and stay indefinitely.
//!
//! Source: netlink(7), tc-bpf(8); linux/pkt_sched.h, linux/pkt_cls.h.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;
use xdp::netlink::{Request, RouteSocket, TCA_KIND, TCA_OPTIONS, push_attribute, traffic_control};

use crate::error::Error;
use crate::netlink::{RtNetlink, TcObject, tc_objects};

/// Priority of the program among the filters at ingress: before all others, since the frames that
/// it consumes are for none of them.
pub(crate) const FILTER_PRIORITY: u32 = 1;
pub(crate) const FILTER_HANDLE: u32 = 0x5c1ce;

const CLSACT: u32 = 0xffff_0000;
const CLSACT_PARENT: u32 = 0xffff_fff1;
pub(crate) const INGRESS: u32 = 0xffff_fff2;
pub(crate) const EGRESS: u32 = 0xffff_fff3;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
const ETH_P_ALL: u16 = 3;

/// Attaches `program` at ingress of an interface, in place of an earlier one of ours. Creates
/// clsact too if `with_clsact`, for an interface that has none yet.
pub(crate) fn attach_filter(
    ifindex: u32,
    program: BorrowedFd<'_>,
    name: &str,
    with_clsact: bool,
) -> io::Result<()> {
    let mut requests = Vec::new();
    if with_clsact {
        requests.push(clsact(ifindex));
    }
    requests.push(filter(ifindex, program, name));
    let mut answers = RouteSocket::open()?.request_all(&requests)?;
    let hung = answers.pop().unwrap_or(Ok(()));
    match answers.pop() {
        // Another process created clsact first.
        Some(Err(error)) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => hung,
    }
}

/// Counts the programs and filters of others in clsact, in both directions.
pub(crate) fn others(links: &RtNetlink, index: u32) -> Result<usize, Error> {
    let mut count = 0;
    for (parent, is_ingress) in [(INGRESS, true), (EGRESS, false)] {
        let found = tc_objects(&links.0, libc::RTM_GETTFILTER, index, parent);
        let found = found.map_err(|error| Error::system("listing filters", error))?;
        count += found.iter().filter(|filter| !(is_ingress && is_ours(filter))).count();
    }
    Ok(count)
}

/// Returns true if this message describes a filter at ingress that is our program, or the head of a
/// list that holds only our program.
pub(crate) fn is_ours(filter: &TcObject) -> bool {
    let handle = filter.handle();
    filter.info() >> 16 == FILTER_PRIORITY && (handle == FILTER_HANDLE || handle == 0)
}

fn clsact(ifindex: u32) -> Request {
    let mut body = traffic_control(ifindex as i32, CLSACT, CLSACT_PARENT, 0);
    push_attribute(&mut body, TCA_KIND, b"clsact\0");
    (libc::RTM_NEWQDISC, libc::NLM_F_CREATE | libc::NLM_F_EXCL, body)
}

fn filter(ifindex: u32, program: BorrowedFd<'_>, name: &str) -> Request {
    let info = FILTER_PRIORITY << 16 | u32::from(ETH_P_ALL.to_be());
    let mut options = Vec::new();
    push_attribute(&mut options, TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes());
    push_attribute(&mut options, TCA_BPF_NAME, &[name.as_bytes(), &[0]].concat());
    push_attribute(&mut options, TCA_BPF_FLAGS, &TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes());
    let mut body = traffic_control(ifindex as i32, FILTER_HANDLE, INGRESS, info);
    push_attribute(&mut body, TCA_KIND, b"bpf\0");
    push_attribute(&mut body, TCA_OPTIONS, &options);
    (libc::RTM_NEWTFILTER, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    use crate::bpf_object::{attached_program, remove_clsact};
    use crate::netns;

    /// Runs on the loopback interface of a new namespace, with the ingress program without its
    /// qdisc, which any kernel accepts.
    #[test]
    fn clsact_and_program_come_together_and_go_together() {
        static OBJECT: &[u8] = include_bytes!(env!("NIC_INGRESS_BPF"));
        let tried = netns::fresh(|| {
            let open = libbpf_rs::ObjectBuilder::default().open_memory(OBJECT).unwrap();
            let object = open.load().expect("root, and a kernel with BPF");
            let program = object.progs().find(|program| program.name() == "sluice_nic_pfc").unwrap();
            let links = RtNetlink::connect()?;
            let lo = links.find("lo")?.index;
            let state =
                || Ok((links.qdiscs(lo)?.has_clsact, attached_program(lo).is_some(), others(&links, lo)?));

            assert!(
                attach_filter(lo, program.as_fd(), "ours", false).is_err(),
                "there is nowhere to hang it"
            );
            assert_eq!(state()?, (false, false, 0));
            for (with_clsact, why) in [(true, "the first"), (true, "somebody was first"), (false, "again")] {
                attach_filter(lo, program.as_fd(), "ours", with_clsact)
                    .unwrap_or_else(|error| panic!("{why}: {error}"));
                assert_eq!(state()?, (true, true, 0), "{why}");
            }
            remove_clsact(lo)?;
            assert_eq!(state()?, (false, false, 0));
            Ok(())
        });
        tried.unwrap();
    }
}
