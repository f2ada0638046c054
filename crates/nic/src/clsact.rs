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

use rtnetlink::packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// Priority of the program among the filters at ingress: before all others, since the frames that
/// it consumes are for none of them.
pub(crate) const FILTER_PRIORITY: u32 = 1;
pub(crate) const FILTER_HANDLE: u32 = 0x5c1ce;

const CLSACT: TcHandle = TcHandle { major: 0xffff, minor: 0 };
const CLSACT_PARENT: TcHandle = TcHandle { major: 0xffff, minor: 0xfff1 };
const INGRESS: TcHandle = TcHandle { major: 0xffff, minor: 0xfff2 };
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
const ETH_P_ALL: u16 = 3;

type Request = NetlinkMessage<RouteNetlinkMessage>;

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
    let mut answers = query(requests)?;
    let hung = answers.pop().unwrap_or(Ok(()));
    match answers.pop() {
        // Another process created clsact first.
        Some(Err(error)) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => hung,
    }
}

/// Returns true if this message describes a filter at ingress that is our program, or the head of a
/// list that holds only our program.
pub(crate) fn is_ours(filter: &TcMessage) -> bool {
    let handle = u32::from(filter.header.handle);
    filter.header.info >> 16 == FILTER_PRIORITY && (handle == FILTER_HANDLE || handle == 0)
}

fn clsact(ifindex: u32) -> Request {
    let mut message = TcMessage::with_index(ifindex as i32);
    (message.header.parent, message.header.handle) = (CLSACT_PARENT, CLSACT);
    message.attributes.push(TcAttribute::Kind("clsact".to_owned()));
    let mut request = Request::from(RouteNetlinkMessage::NewQueueDiscipline(message));
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    request
}

fn filter(ifindex: u32, program: BorrowedFd<'_>, name: &str) -> Request {
    let mut message = TcMessage::with_index(ifindex as i32);
    (message.header.parent, message.header.handle) = (INGRESS, TcHandle::from(FILTER_HANDLE));
    message.header.info = FILTER_PRIORITY << 16 | u32::from(ETH_P_ALL.to_be());
    message.attributes.push(TcAttribute::Kind("bpf".to_owned()));
    let options = [
        attribute(TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes()),
        attribute(TCA_BPF_NAME, &[name.as_bytes(), &[0]].concat()),
        attribute(TCA_BPF_FLAGS, &TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes()),
    ];
    message.attributes.push(TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, options.concat())));
    let mut request = Request::from(RouteNetlinkMessage::NewTrafficFilter(message));
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
    request
}

/// Returns an attribute as it is in a message: length, kind, value, padded to four bytes.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = 4 + value.len();
    let mut bytes = [&(len as u16).to_ne_bytes(), &kind.to_ne_bytes(), value].concat();
    bytes.resize(len.next_multiple_of(4), 0);
    bytes
}

/// Sends all requests in one call; returns the reply to each.
fn query(requests: Vec<Request>) -> io::Result<Vec<io::Result<()>>> {
    let count = requests.len();
    let mut bytes = Vec::new();
    for (request, number) in requests.into_iter().zip(1..) {
        let mut request = request;
        request.header.sequence_number = number;
        request.finalize();
        let start = bytes.len();
        bytes.resize(start + request.buffer_len().next_multiple_of(4), 0);
        request.serialize(&mut bytes[start..]);
    }
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    let mut answers = Vec::new();
    while answers.len() < count {
        let (received, _) = socket.recv_from_full()?;
        let mut rest = &received[..];
        while !rest.is_empty() {
            let message = Request::deserialize(rest).map_err(io::Error::other)?;
            let len = (message.header.length as usize).next_multiple_of(4);
            rest = rest.get(len..).unwrap_or_default();
            if let NetlinkPayload::Error(error) = message.payload {
                answers.push(if error.code.is_some() { Err(error.to_io()) } else { Ok(()) });
            }
        }
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    use crate::bpf_object::{attached_program, remove_clsact};
    use crate::netlink::RtNetlink;
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
                || Ok((links.qdiscs(lo)?.has_clsact, attached_program(lo).is_some(), links.others(lo)?));

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
