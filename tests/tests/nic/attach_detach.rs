//! Attached, detached, deleted, killed: whatever happens to an interface, nothing stays behind and
//! the kernel reports no warning (`cargo xtask vm` checks that after all tests).

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use testbed::{Namespace, Process, binary, eventually};

use crate::cable::{Cable, FAR};
use crate::lab::{Full, NO_DROP_TOS, attach, nic, priorities, send, show};

/// Returns our programs that the kernel still has after a grace time.
fn programs_left() -> Result<String> {
    let output = Command::new("bpftool").args(["prog", "list"]).output().context("bpftool")?;
    let output = String::from_utf8(output.stdout)?;
    Ok(output.lines().filter(|line| line.contains("sluice_nic")).map(|line| format!("{line}\n")).collect())
}

fn nothing_left() -> Result<()> {
    eventually("the kernel has forgotten every program", || Ok(programs_left()?.is_empty().then_some(())))
}

fn qdiscs(namespace: &Namespace) -> Result<String> {
    namespace.run("tc qdisc show dev eth0")
}

/// Sends as much as a socket accepts while `during` runs; a sender that is not attached may lose
/// frames.
fn under_traffic<T>(cable: &Cable, during: impl FnOnce() -> Result<T>) -> Result<T> {
    // Without the testbed, which belongs to one thread.
    let near = &cable.near;
    std::thread::scope(|scope| {
        let (send_line, reported) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            let some = Duration::from_millis(50);
            // Until the other side hangs up; once the interface is removed there is no destination.
            while reported.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty)
                && send(near, FAR, NO_DROP_TOS, Full::Again, some, Duration::ZERO).is_ok()
            {}
        });
        let done = during();
        drop(send_line);
        done
    })
}

#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn a_check_reports_that_it_works() -> Result<()> {
    let output = nic("check")?;
    assert_eq!(output.lines().count(), 4, "{output}");
    assert!(output.lines().all(|line| line.starts_with('✔')), "{output}");
    nothing_left()
}

#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn attached_and_detached_100_times_under_traffic() -> Result<()> {
    let cable = Cable::new(1)?;
    let namespace = &cable.near.namespace;
    let before = qdiscs(namespace)?;
    under_traffic(&cable, || {
        for _ in 0..100 {
            attach(namespace, "--speed 100M --trust dscp")?;
            nic(&format!("detach eth0 --netns {}", namespace.name()))?;
        }
        Ok(())
    })?;
    assert_eq!(qdiscs(namespace)?, before, "as it was");
    nothing_left()
}

#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn replaced_under_traffic_and_refused_unasked() -> Result<()> {
    let cable = Cable::new(1)?;
    let namespace = &cable.near.namespace;
    let refused = |options: &str| attach(namespace, options).unwrap_err().to_string();
    under_traffic(&cable, || {
        attach(namespace, "--speed 100M --trust dscp")?;
        assert!(refused("--speed 100M").contains("honors PFC already"), "{}", refused("--speed 100M"));
        for _ in 0..10 {
            let output = attach(namespace, "--speed 200M --trust dscp --replace")?;
            assert!(output.contains("instead of `sluice_nic`"), "{output}");
        }
        assert_eq!(show(namespace)?["speed_bps"], 200_000_000);
        nic(&format!("detach eth0 --netns {}", namespace.name()))?;
        let nothing = nic(&format!("detach eth0 --netns {}", namespace.name())).unwrap_err().to_string();
        assert!(nothing.contains("has nothing of `sluice nic` to take off"), "{nothing}");

        namespace.run("tc qdisc add dev eth0 root pfifo limit 100")?;
        let foreign = refused("--speed 100M");
        assert!(foreign.contains("`pfifo`") && foreign.contains("--replace"), "{foreign}");
        let output = attach(namespace, "--speed 100M --replace")?;
        assert!(output.contains("instead of `pfifo`"), "{output}");
        attach(namespace, "--speed 200M --replace")?; // what the first one replaced is still known
        let output = nic(&format!("detach eth0 --netns {}", namespace.name()))?;
        assert!(output.contains("it has its `pfifo` again"), "{output}");
        assert!(qdiscs(namespace)?.contains("limit 100p"), "{}", qdiscs(namespace)?);
        Ok(())
    })?;
    let none = nic("attach eth7 --speed 1G").unwrap_err().to_string();
    assert!(none.contains("there is no interface `eth7` here"), "{none}");
    drop(cable);
    nothing_left()
}

/// Another program at ingress, and a clsact qdisc made by someone else, stay.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn what_others_hang_at_ingress_stays() -> Result<()> {
    let cable = Cable::new(1)?;
    let namespace = &cable.near.namespace;
    attach(namespace, "--speed 100M")?;
    namespace.run("tc filter add dev eth0 egress protocol all pref 7 matchall action pass")?;
    nic(&format!("detach eth0 --netns {}", namespace.name()))?;
    let left = namespace.run("tc filter show dev eth0 egress")?;
    assert!(left.contains("matchall"), "{left}");
    assert!(!qdiscs(namespace)?.contains("sluice"), "{}", qdiscs(namespace)?);
    nothing_left()
}

#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn it_goes_with_its_interface_and_with_its_namespace() -> Result<()> {
    let cable = Cable::new(1)?;
    attach(&cable.near.namespace, "--speed 100M --trust dscp")?;
    under_traffic(&cable, || cable.near.namespace.ip("link del eth0"))?;
    nothing_left()?;
    drop(cable);

    let cable = Cable::new(1)?;
    attach(&cable.near.namespace, "--speed 100M --trust dscp")?;
    under_traffic(&cable, || cable.near.namespace.ip("link set eth0 down"))?;
    drop(cable); // with its namespaces
    nothing_left()
}

/// Killed at any moment of an attachment: no kind stays registered, so the next attachment works,
/// and once that is detached nothing is left of either. The first moments are spread over the
/// duration of an attachment here, the others close in on the one when it is attached.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn killed_half_way() -> Result<()> {
    const SPREAD: u32 = 10;
    const CLOSER: u32 = 20;
    let cable = Cable::new(1)?;
    let namespace = &cable.near.namespace;
    let before = qdiscs(namespace)?;
    let started = Instant::now();
    attach(namespace, "--speed 100M")?;
    let takes = started.elapsed();
    nic(&format!("detach eth0 --netns {}", namespace.name()))?;
    let arguments = ["nic", "attach", "eth0", "--netns", namespace.name(), "--speed", "100M"];
    let (mut half, mut whole) = (0, 0);
    let (mut none, mut all) = (Duration::ZERO, takes * 5 / 4);
    for number in 0..SPREAD + CLOSER {
        let moment = if number < SPREAD { takes * number * 5 / SPREAD / 4 } else { (none + all) / 2 };
        let mut attaching = Process::start("sluice", Command::new(binary("sluice")?).args(arguments))?;
        std::thread::sleep(moment);
        attaching.signal(Signal::SIGKILL).ok(); // it may be done
        attaching.wait(Duration::ZERO)?;
        let left = qdiscs(namespace)?;
        if left.contains("sluice_nic") {
            whole += 1;
            all = all.min(moment);
        } else {
            half += u32::from(left != before);
            none = none.max(moment);
        }
        attach(namespace, "--speed 100M --replace")?;
        nic(&format!("detach eth0 --netns {}", namespace.name()))?;
        assert_eq!(qdiscs(namespace)?, before, "as it was, after {moment:?}");
    }
    println!("    an attachment takes {takes:?}; killed at {none:?} it was not there, at {all:?} it was");
    println!(
        "    {whole} of {} had their qdisc when they were killed, {half} the rest of it",
        SPREAD + CLOSER
    );
    ensure!(whole > 0 && whole < SPREAD + CLOSER, "the moments miss the attachment");
    nothing_left()
}

/// Four TX queues, one root qdisc over all of them: everything is held, and one XON resumes all of
/// it.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn several_queues_are_held_and_set_free_together() -> Result<()> {
    let cable = Cable::new(4)?;
    let namespace = &cable.near.namespace;
    // The longest pause lasts 33 s at 1 Mbit/s, long enough to inspect the state.
    attach(namespace, "--speed 1M --trust dscp")?;
    crate::latency::send_pfc(&cable.far, 3, 65_535)?;
    for _ in 0..8 {
        let some = Duration::from_micros(1);
        send(&cable.near, FAR, NO_DROP_TOS, Full::Block, some, Duration::ZERO)?;
    }
    eventually("all of them are held", || {
        crate::latency::send_pfc(&cable.far, 3, 65_535)?;
        let some = Duration::from_micros(1);
        send(&cable.near, FAR, NO_DROP_TOS, Full::Block, some, Duration::ZERO)?;
        Ok((priorities(&show(namespace)?, "held_frames")[3] >= 8).then_some(()))
    })?;
    crate::latency::send_pfc(&cable.far, 3, 0)?;
    eventually("none is held", || Ok((priorities(&show(namespace)?, "held_frames")[3] == 0).then_some(())))?;
    let shown = show(namespace)?;
    ensure!(shown["heard"]["kicks"].as_u64() > Some(0), "{shown:#}");
    Ok(())
}
