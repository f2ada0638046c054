//! An interface of this machine that follows the agent of a switch's port on the other end of a
//! veth. The qdisc is left out, so that any kernel can run them.

use std::io::PipeReader;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use dcbx::status::{FeatureReason, FeatureState};

use super::*;
use crate::netns;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// The switch's end of the veth, and the interface that follows it is `host`.
struct SwitchPort {
    agent: Agent,
    socket: PacketSocket,
    started: Instant,
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(status.is_ok_and(|status| status.success()), "ip {arguments}: needs root");
}

fn settings(willing: bool, no_drop: u8) -> AgentSettings {
    let pfc = PfcSettings { willing, no_drop, ..PfcSettings::default() };
    AgentSettings::host("switch", MacAddr([2, 0, 0, 0, 0, 1]), "port", pfc)
}

impl SwitchPort {
    fn open() -> Self {
        ip("link add host type veth peer name switch");
        ip("link set switch up");
        ip("link set host up");
        let socket = PacketSocket::open_lldp("switch").unwrap();
        let mut agent = Agent::new(settings(false, 1 << 4));
        agent.set_link(Duration::ZERO, true);
        Self { agent, socket, started: Instant::now() }
    }

    fn configure(&mut self, settings: AgentSettings) {
        self.agent.configure(self.started.elapsed(), settings);
    }

    fn run(&mut self) {
        let mut frame = [0; FRAME_BYTES];
        while let Ok(Some(len)) = self.socket.receive(&mut frame) {
            self.agent.receive(self.started.elapsed(), &frame[..len]);
        }
        for frame in self.agent.poll(self.started.elapsed()).frames {
            let _ = self.socket.send(&frame);
        }
    }

    /// Runs until `is_so` of the switch's agent and of the host's last state.
    fn until(
        &mut self,
        what: &str,
        host: &Receiver<Status>,
        is_so: impl Fn(&Agent, Option<&Status>) -> bool,
    ) -> Option<Status> {
        let end = Instant::now() + PATIENCE;
        let mut last = None;
        while Instant::now() < end {
            self.run();
            last = host.try_iter().last().or(last);
            if is_so(&self.agent, last.as_ref()) {
                return last;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("{what} does not happen: {last:#?} {:#?}", self.agent.status());
    }
}

/// Runs `inside` with a switch's port, the states of the host that follows it, and what ends the
/// host; returns how the host has ended.
fn with_host(
    apply_fails: bool,
    inside: impl FnOnce(&mut SwitchPort, &Receiver<Status>, Box<dyn FnOnce()>) + Send,
) -> Result<(), Error> {
    netns::fresh(|| {
        let mut switch = SwitchPort::open();
        let (states, host) = channel();
        let (stop, stopper): (PipeReader, _) = std::io::pipe().unwrap();
        thread::scope(|scope| {
            let following = scope.spawn(move || {
                follow("host", 1 << 3, stop.as_fd(), |status| {
                    let _ = states.send(status.clone());
                    let gone = || Err(Error::Lost { device: "host".to_owned() });
                    if apply_fails && status.pfc.state.is_agreed() { gone() } else { Ok(()) }
                })
            });
            inside(&mut switch, &host, Box::new(move || drop(stopper)));
            following.join().unwrap()
        })
    })
}

/// It takes over what the switch advertises and each change of it; what was agreed ends with the
/// switch's withdrawal, with the link, and with the host's own end.
#[test]
fn a_host_follows_the_switch() {
    let ended = with_host(false, |switch, host, stop| {
        let agreed = |mask: u8| {
            move |_: &Agent, status: Option<&Status>| status.is_some_and(|it| it.operational.no_drop == mask)
        };
        let status = switch.until("the agreement", host, agreed(1 << 4)).unwrap();
        assert_eq!((status.pfc.local, status.pfc.reason), (1 << 3, FeatureReason::TakenOver));
        switch.until("the same at the switch", host, |agent, _| {
            agent.operational().is_some_and(|it| it.no_drop == 1 << 4)
        });
        let shown: Vec<_> = switch.agent.neighbors().map(|it| it.lldpdu.system_name.clone()).collect();
        assert_eq!(shown, [Some(host_name())]);
        switch.configure(settings(false, 0b11_0000));
        switch.until("a further priority", host, agreed(0b11_0000));
        switch.configure(settings(false, 0b11_0000).withdrawn());
        let status = switch.until("the end of the agreement", host, agreed(0)).unwrap();
        assert_eq!((status.pfc.state, status.pfc.reason), (FeatureState::Local, FeatureReason::NoPeer));
        switch.configure(settings(true, 0b11_0000));
        let status = switch.until("an agreement of two willing ends", host, |_, status| {
            status.is_some_and(|it| it.pfc.state.is_agreed())
        });
        assert_eq!(status.unwrap().pfc.peer_willing, Some(true));

        ip("link set switch down");
        switch.agent.set_link(switch.started.elapsed(), false);
        switch.until("the end with the link", host, agreed(0));
        ip("link set switch up");
        switch.agent.set_link(switch.started.elapsed(), true);
        switch.configure(settings(false, 1 << 5));
        switch.until("the agreement after it", host, agreed(1 << 5));
        switch.until("the host at the switch", host, |agent, _| agent.neighbors().count() == 1);

        stop();
        switch.until("the host's withdrawal", host, |agent, _| agent.neighbors().count() == 0);
    });
    ended.unwrap();
}

/// A host that cannot honor pauses any more does not say that it does.
#[test]
fn a_host_that_is_detached_withdraws() {
    let ended = with_host(true, |switch, host, stop| {
        switch.until("the host at the switch", host, |agent, _| agent.counters().rx_frames > 0);
        switch.until("its withdrawal", host, |agent, _| agent.neighbors().count() == 0);
        drop(stop);
    });
    assert!(matches!(ended, Err(Error::Lost { .. })), "{ended:?}");
}

/// The interface is removed while it follows, and one that is not there is named.
#[test]
fn a_missing_interface_is_reported() {
    let ended = with_host(false, |switch, host, stop| {
        switch.until("a state", host, |_, status| status.is_some());
        ip("link del host");
        // Until the host has gone, and its states with it.
        while !matches!(host.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected)) {
            thread::sleep(Duration::from_millis(5));
        }
        drop(stop);
    });
    assert!(matches!(&ended, Err(Error::NoInterface { device, .. }) if device == "host"), "{ended:?}");
    let (stop, _stopper) = std::io::pipe().unwrap();
    let missing = follow("no-such-nic", 1, stop.as_fd(), |_| Ok(())).unwrap_err();
    assert!(missing.to_string().contains("there is no interface `no-such-nic`"), "{missing}");
}
