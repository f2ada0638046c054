//! The root qdisc that ours replaces, kept so that it can be restored when ours is removed.
//!
//! Rule: what the kernel reports of a qdisc (kind, options, size table) is the request that adds
//! it, for the kinds that can be restored. Whether it is one of them is tried on another interface,
//! in a new namespace: the kernel must accept the request and report the same again. A qdisc with
//! children, classes or filters that somebody configured cannot be restored. The kernel's default
//! needs no request: the kernel restores it by itself.
//!
//! Source: rtnetlink(7); linux/rtnetlink.h, linux/pkt_sched.h.

use std::io;

use nix::libc;
use xdp::netlink::{
    RouteSocket, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, attributes, push_attribute, text, traffic_control, u32_at,
};

use crate::abi::{Reader, Writer};
use crate::error::Error;
use crate::netlink::{RtNetlink, TcObject, tc_objects};
use crate::netns;

/// Bytes of `struct replaced` of bpf/nic.bpf.c, of which four are a length.
pub(crate) const RECORD_BYTES: usize = 1024;

/// The size table of a qdisc (linux/rtnetlink.h).
const TCA_STAB: u16 = 8;
// linux/if_link.h
const IFINFO_BYTES: usize = 16;
const IFLA_INFO_KIND: u16 = 1;

/// Kinds whose classes are the flows of the moment, not something that was configured.
const FLOWS_AS_CLASSES: [&str; 3] = ["fq_codel", "sfq", "cake"];

/// A root qdisc that somebody configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedQdisc {
    handle: u32,
    /// Kind, options and size table, as the kernel reports them.
    attributes: Vec<u8>,
}

impl SavedQdisc {
    /// Reads the root qdisc of interface `index`. `None` if it is the kernel's default.
    pub(crate) fn read(index: u32) -> Result<Option<Self>, Error> {
        let failed = |error| Error::system("reading the root qdisc", error);
        let all = at(index, libc::RTM_GETQDISC, 0).map_err(failed)?;
        // A default qdisc has no number.
        let root = all.iter().find(|qdisc| qdisc.parent() == TC_H_ROOT && qdisc.handle() != 0);
        let Some(root) = root else { return Ok(None) };
        let wanted = |(kind, _): &(u16, &[u8])| matches!(*kind, TCA_KIND | TCA_OPTIONS | TCA_STAB);
        let mut attributes = Vec::new();
        root.attributes()
            .filter(wanted)
            .for_each(|(kind, value)| push_attribute(&mut attributes, kind, value));
        Ok(Some(Self { handle: root.handle(), attributes }))
    }

    /// Its kind, as `tc` names it.
    pub(crate) fn kind(&self) -> String {
        let kind = attributes(&self.attributes).find(|(kind, _)| *kind == TCA_KIND);
        kind.map(|(_, kind)| text(kind)).unwrap_or_default()
    }

    /// Makes it the root qdisc of interface `index`, in place of the present one.
    pub(crate) fn restore(&self, index: u32) -> io::Result<()> {
        let mut body = traffic_control(index as i32, self.handle, TC_H_ROOT, 0);
        body.extend_from_slice(&self.attributes);
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        RouteSocket::open()?.request(libc::RTM_NEWQDISC, flags, &body).map(drop)
    }

    /// Returns why it could not be restored on interface `index`, which has it now.
    pub(crate) fn obstacle(&self, index: u32) -> Option<String> {
        match self.look_for_obstacle(index) {
            Ok(obstacle) => obstacle,
            Err(error) => Some(error.to_string()),
        }
    }

    fn look_for_obstacle(&self, index: u32) -> Result<Option<String>, Error> {
        let failed = |error| Error::system("reading what is below the root qdisc", error);
        if self.attributes.len() + 8 > RECORD_BYTES {
            return Ok(Some("its options are too long to keep".to_owned()));
        }
        let below = |qdisc: &TcObject| qdisc.parent() >> 16 == self.handle >> 16 && qdisc.handle() != 0;
        if at(index, libc::RTM_GETQDISC, 0).map_err(failed)?.iter().any(below) {
            return Ok(Some("other qdiscs were configured below it".to_owned()));
        }
        if !at(index, libc::RTM_GETTFILTER, self.handle).map_err(failed)?.is_empty() {
            return Ok(Some("filters were configured at it".to_owned()));
        }
        let (classes, queues) = (self.classes(index).map_err(failed)?, tx_queues(index).map_err(failed)?);
        netns::fresh(|| self.trial(queues, classes))
    }

    /// Tries to restore it on another interface. Returns what is then different.
    fn trial(&self, tx_queues: u32, classes: usize) -> Result<Option<String>, Error> {
        let failed = |error| Error::system("an interface for a trial", error);
        let mut body = vec![0; IFINFO_BYTES];
        let mut kind = Vec::new();
        push_attribute(&mut kind, IFLA_INFO_KIND, b"veth");
        push_attribute(&mut body, libc::IFLA_IFNAME, b"trial\0");
        push_attribute(&mut body, libc::IFLA_NUM_TX_QUEUES, &tx_queues.to_ne_bytes());
        push_attribute(&mut body, libc::IFLA_LINKINFO, &kind);
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let route = RouteSocket::open().map_err(failed)?;
        route.request(libc::RTM_NEWLINK, flags, &body).map_err(failed)?;
        let index = RtNetlink::connect()?.find("trial")?.index;
        if let Err(error) = self.restore(index) {
            return Ok(Some(format!("the kernel does not take back what it reports of it ({error})")));
        }
        if Self::read(index)?.as_ref() != Some(self) {
            return Ok(Some("the kernel does not report all of its options".to_owned()));
        }
        let of_trial = self.classes(index).map_err(failed)?;
        Ok((of_trial != classes).then(|| "classes were configured in it".to_owned()))
    }

    /// Counts its classes. Some kinds have them without being configured, always the same number.
    fn classes(&self, index: u32) -> io::Result<usize> {
        if FLOWS_AS_CLASSES.contains(&self.kind().as_str()) {
            return Ok(0);
        }
        let all = at(index, libc::RTM_GETTCLASS, 0)?;
        Ok(all.iter().filter(|class| class.handle() >> 16 == self.handle >> 16).count())
    }

    /// Encodes it as `struct replaced` of bpf/nic.bpf.c; `None`: the kernel's default.
    pub(crate) fn record(saved: Option<&Self>) -> Vec<u8> {
        let mut out = Writer::default();
        if let Some(Self { handle, attributes }) = saved {
            out.u32(4 + attributes.len() as u32).u32(*handle).bytes(attributes);
        }
        let mut bytes = out.done();
        bytes.resize(RECORD_BYTES, 0);
        bytes
    }

    /// Decodes a record; `None`: the kernel's default.
    pub(crate) fn from_record(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let len = u32::from_ne_bytes(from.bytes()?) as usize;
        let handle = u32::from_ne_bytes(from.bytes()?);
        let attributes = bytes.get(8..4 + len)?.to_vec();
        Some(Self { handle, attributes }).filter(|_| len > 4)
    }
}

fn at(index: u32, request: u16, parent: u32) -> io::Result<Vec<TcObject>> {
    tc_objects(&RouteSocket::open()?, request, index, parent)
}

/// Returns the number of TX queues of an interface.
fn tx_queues(index: u32) -> io::Result<u32> {
    let mut body = vec![0; IFINFO_BYTES];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    let link = RouteSocket::open()?.request(libc::RTM_GETLINK, 0, &body)?;
    let mut found = attributes(link.get(IFINFO_BYTES..).unwrap_or_default());
    let queues = found.find(|(kind, _)| *kind == libc::IFLA_NUM_TX_QUEUES);
    Ok(queues.and_then(|(_, value)| u32_at(value, 0)).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn try_run(line: &str) -> Result<String, String> {
        let mut words = line.split(' ');
        let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
        let [out, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        if output.status.success() { Ok(out) } else { Err(errors) }
    }

    fn run(line: &str) -> String {
        try_run(line).unwrap_or_else(|errors| panic!("{line}: {errors}"))
    }

    /// Runs some lines. Returns false if this kernel was built without a kind.
    fn knows(lines: &[&str]) -> bool {
        lines.iter().all(|line| match try_run(line) {
            Err(errors) if errors.contains("unknown") => {
                println!("not on this kernel: {line}");
                false
            }
            done => done.map(|_| true).unwrap_or_else(|errors| panic!("{line}: {errors}")),
        })
    }

    /// Runs in a new namespace with a veth `va` that has four TX queues.
    fn with_veth(test: impl FnOnce(u32) -> Result<(), Error> + Send) {
        let tried = netns::fresh(|| {
            run("ip link add va numtxqueues 4 type veth peer name vb");
            test(RtNetlink::connect()?.find("va")?.index)
        });
        tried.unwrap();
    }

    /// Each is replaced by another one, as by ours, and restored from what the kernel kept.
    #[test]
    fn a_root_qdisc_is_restored_as_it_was() {
        with_veth(|va| {
            assert_eq!(SavedQdisc::read(va)?, None, "the kernel's default");
            for qdisc in [
                "pfifo limit 77",
                "bfifo limit 12345",
                "pfifo_fast",
                "fq limit 5000 flow_limit 50 maxrate 1gbit",
                "fq_codel limit 500 target 3ms noecn",
                "tbf rate 100mbit burst 32kb latency 20ms",
                "netem delay 2ms loss 1%",
                "sfq perturb 10",
                "mq",
                "prio bands 4",
            ] {
                if !knows(&[&format!("tc qdisc add dev va root handle 7: {qdisc}")]) {
                    continue;
                }
                let before = run("tc qdisc show dev va");
                let saved = SavedQdisc::read(va)?.expect("it was configured");
                assert_eq!(saved.kind(), qdisc.split(' ').next().unwrap());
                assert_eq!(saved.obstacle(va), None, "{qdisc}");
                run("tc qdisc replace dev va root handle 8: pfifo limit 1");
                let kept = SavedQdisc::from_record(&SavedQdisc::record(Some(&saved))).expect("a record");
                kept.restore(va).unwrap_or_else(|error| panic!("{qdisc}: {error}"));
                assert_eq!(run("tc qdisc show dev va"), before);
                run("tc qdisc del dev va root");
            }
            assert_eq!(SavedQdisc::from_record(&SavedQdisc::record(None)), None);
            Ok(())
        });
    }

    #[test]
    fn what_cannot_be_restored_is_known_before() {
        with_veth(|va| {
            for (lines, why) in [
                (
                    &[
                        "tc qdisc add dev va root handle 7: prio",
                        "tc qdisc add dev va parent 7:1 pfifo limit 9",
                    ][..],
                    "other qdiscs",
                ),
                (
                    &[
                        "tc qdisc add dev va root handle 7: htb",
                        "tc class add dev va parent 7: classid 7:1 htb rate 1mbit",
                    ],
                    "does not take back",
                ),
                (
                    &[
                        "tc qdisc add dev va root handle 7: prio",
                        "tc filter add dev va parent 7: matchall classid 7:1",
                    ],
                    "filters",
                ),
                (
                    &["tc qdisc add dev va root handle 7: red limit 400000 avpkt 1000 bandwidth 100mbit"],
                    "does not",
                ),
            ] {
                if !knows(lines) {
                    let _ = try_run("tc qdisc del dev va root");
                    continue;
                }
                let saved = SavedQdisc::read(va)?.expect("it was configured");
                let obstacle = saved.obstacle(va).unwrap_or_default();
                assert!(obstacle.contains(why), "{lines:?}: {obstacle}");
                run("tc qdisc del dev va root");
            }
            Ok(())
        });
    }
}
