//! The BPF object (`bpf/nic.bpf.c`): loaded for one interface, its qdisc kind registered only while
//! it is being attached, its program attached at ingress and found there again.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, PrintLevel, TC_EGRESS, TC_INGRESS,
    TcHook, TcHookBuilder,
};

use crate::clsact::{self, FILTER_HANDLE, FILTER_PRIORITY};
use crate::error::Error;
use crate::settings::{PRIORITIES, Settings};

/// The compiled programs.
static OBJECT: &[u8] = include_bytes!(env!("NIC_BPF"));

const OPERATIONS: &str = "sluice_nic";
const PROGRAM: &str = "sluice_nic_pfc";

/// How long to wait while another process has registered the kind.
const PATIENCE: Duration = Duration::from_secs(10);

/// The loaded programs and maps of one interface.
pub(crate) struct Loaded {
    object: Object,
}

impl Loaded {
    /// Loads the object with these settings, and the record of the root qdisc that is replaced.
    pub(crate) fn new(
        settings: &Settings,
        ifindex: u32,
        made_clsact: bool,
        replaced: &[u8],
    ) -> Result<Self, Error> {
        log_libbpf_messages();
        let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(|error| refusal(&error))?;
        for mut map in open.maps_mut() {
            if map.name() == "nic_slots" {
                map.set_max_entries(settings.slots() * PRIORITIES as u32).map_err(|error| refusal(&error))?;
            }
        }
        let object = open.load().map_err(|error| refusal(&error))?;
        let of_settings = settings.to_bytes(ifindex, made_clsact);
        for (name, bytes) in [("nic_settings", &of_settings[..]), ("nic_replaced", replaced)] {
            let map = object.maps().find(|map| map.name() == name).expect("it is in the object");
            map.update(&0u32.to_ne_bytes(), bytes, MapFlags::ANY).map_err(|error| refusal(&error))?;
        }
        Ok(Self { object })
    }

    /// Registers the qdisc kind with the kernel until the returned link is dropped. Only one
    /// process at a time can register it.
    pub(crate) fn register(&mut self) -> Result<Link, Error> {
        let until = Instant::now() + PATIENCE;
        let mut operations =
            self.object.maps_mut().find(|map| map.name() == OPERATIONS).expect("it is in the object");
        loop {
            match operations.attach_struct_ops() {
                Ok(link) => return Ok(link),
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(refusal(&error)),
                Err(_) if Instant::now() >= until => return Err(Error::Busy { seconds: PATIENCE.as_secs() }),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Attaches the program at ingress of an interface, in place of an earlier one of ours; creates
    /// clsact too if `with_clsact`.
    pub(crate) fn attach_filter(&self, ifindex: u32, with_clsact: bool) -> Result<(), Error> {
        let program = self.object.progs().find(|program| program.name() == PROGRAM).expect("in the object");
        let action = "adding the program at ingress (modules sch_ingress, cls_bpf)";
        clsact::attach_filter(ifindex, program.as_fd(), PROGRAM, with_clsact).map_err(|error| {
            match error.kind() {
                io::ErrorKind::PermissionDenied => Error::NotPermitted { action: action.to_owned() },
                _ => Error::system(action, error),
            }
        })
    }
}

/// Detaches the program.
pub(crate) fn detach_filter(ifindex: u32) -> Result<(), Error> {
    let nothing = io::stdin(); // a descriptor that is not used: what hangs is known by its numbers
    let failed = |error| Error::system("taking the program off", error);
    builder(nothing.as_fd(), ifindex).hook(TC_INGRESS).detach().map_err(failed)
}

/// Removes clsact with everything attached to it.
pub(crate) fn remove_clsact(ifindex: u32) -> Result<(), Error> {
    let nothing = io::stdin();
    let mut clsact = TcHook::new(nothing.as_fd());
    clsact.ifindex(ifindex as i32).attach_point(TC_INGRESS | TC_EGRESS);
    clsact.destroy().map_err(|error| Error::system("removing clsact", error))
}

/// Returns the program at ingress, if it is ours.
pub(crate) fn attached_program(ifindex: u32) -> Option<ProgramInfo> {
    let nothing = io::stdin();
    let id = builder(nothing.as_fd(), ifindex).hook(TC_INGRESS).query().ok()?;
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let mut all = ProgInfoIter::with_query_opts(options);
    all.find(|program| program.id == id && program.name.to_bytes() == PROGRAM.as_bytes())
}

/// Returns the only value of the map `name` of a program.
pub(crate) fn value_of(program: &ProgramInfo, name: &str) -> Result<Vec<u8>, Error> {
    let map = map_of(program, name)?;
    let flags = if name == "nic_pauses" { MapFlags::LOCK } else { MapFlags::ANY };
    let value = map.lookup(&0u32.to_ne_bytes(), flags).map_err(|error| map_error(&error))?;
    value.ok_or_else(|| Error::system(MAP_ACCESS, "the map is empty"))
}

/// Replaces the only value of the map `name` of a program.
pub(crate) fn set_value_of(program: &ProgramInfo, name: &str, value: &[u8]) -> Result<(), Error> {
    let map = map_of(program, name)?;
    map.update(&0u32.to_ne_bytes(), value, MapFlags::ANY).map_err(|error| map_error(&error))
}

fn map_of(program: &ProgramInfo, name: &str) -> Result<MapHandle, Error> {
    for id in &program.map_ids {
        let map = MapHandle::from_map_id(*id).map_err(|error| map_error(&error))?;
        if map.name() == name {
            return Ok(map);
        }
    }
    Err(Error::system(MAP_ACCESS, format!("no map {name}: another version of Sluice?")))
}

const MAP_ACCESS: &str = "reading the maps of the program at ingress";

fn map_error(error: &libbpf_rs::Error) -> Error {
    match error.kind() {
        ErrorKind::PermissionDenied => Error::NotPermitted { action: MAP_ACCESS.to_owned() },
        _ => Error::system(MAP_ACCESS, error),
    }
}

fn builder(fd: std::os::fd::BorrowedFd<'_>, ifindex: u32) -> TcHookBuilder<'_> {
    log_libbpf_messages();
    let mut builder = TcHookBuilder::new(fd);
    builder.ifindex(ifindex as i32).replace(true).handle(FILTER_HANDLE).priority(FILTER_PRIORITY);
    builder
}

/// Translates an error of libbpf.
fn refusal(error: &libbpf_rs::Error) -> Error {
    match error.kind() {
        ErrorKind::PermissionDenied => Error::NotPermitted { action: "loading the BPF programs".to_owned() },
        _ => Error::Load(format!("{error:#}")),
    }
}

/// Suppresses libbpf's log. libbpf would write to standard error, also about conditions that are no
/// error here, such as an interface without a program.
fn log_libbpf_messages() {
    libbpf_rs::set_print(Some((PrintLevel::Debug, log_libbpf)));
}

fn log_libbpf(_level: PrintLevel, message: String) {
    tracing::debug!(target: "libbpf", "{}", message.trim_end());
}
