//! The vhost-user back end of a port: what a front end asks for, and what follows for the rings.
//!
//! Rule: before a message changes what the rings depend on, the rings come back from the loop, and
//! afterwards those that are configured, started and enabled go to it again. A refused message
//! changes nothing; a front end that breaks the protocol loses its connection. Source: QEMU's
//! vhost-user protocol; docs/vhost-user.md.

pub(crate) mod socket;

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

use crate::memory::{GuestMemory, RegionSpec, UnsealedMemory};
use crate::port::device::{Device, MAX_RINGS, rx_ring, tx_ring};
use crate::port::handover::Handover;
use crate::port::signals::Signals;
use crate::ring::fault::RingFault;
use crate::ring::{MAX_RING, Queue, RingConfig};

/// Bits of virtio features.
pub(crate) mod feature {
    /// Frames may be spread over several posted buffers.
    pub(crate) const MERGEABLE: u64 = 1 << 15;
    /// The guest has a control queue, which its front end serves.
    pub(crate) const CONTROL_QUEUE: u64 = 1 << 17;
    /// The guest may choose what it receives; its front end ignores that.
    pub(crate) const CONTROL_RX: u64 = 1 << 18;
    /// There are several queue pairs.
    pub(crate) const MULTI_QUEUE: u64 = 1 << 22;
    /// A buffer may have any layout.
    pub(crate) const ANY_LAYOUT: u64 = 1 << 27;
    /// Chains may be in tables of descriptors.
    pub(crate) const INDIRECT: u64 = 1 << 28;
    /// Both sides say at which index they want to be notified.
    pub(crate) const EVENT_INDEX: u64 = 1 << 29;
    /// The front end knows protocol features.
    pub(crate) const PROTOCOL: u64 = 1 << 30;
    /// Virtio 1.0 or later.
    pub(crate) const VERSION_1: u64 = 1 << 32;
}

/// What a back end offers to a front end, and accepts of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BackEndSettings {
    pub(crate) queue_pairs: usize,
    pub(crate) unsealed: UnsealedMemory,
}

/// What happened at a port's socket, for the log and the port's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A front end is connected.
    Connected,
    /// The front end is gone, for this reason.
    Disconnected(String),
    /// The guest's driver has configured its rings, with this number of queue pairs.
    LinkUp(usize),
    /// The guest's driver has stopped its rings, or the front end is gone.
    LinkDown,
    /// A message was refused.
    Refused(String),
    /// The guest broke the rules of the rings this often since the last notice; the last time in
    /// this way.
    RingFaults(u64, &'static str),
    /// The socket cannot be opened.
    SocketError(String),
}

/// The state of a ring between messages.
#[derive(Debug, Default)]
struct RingState {
    config: RingConfig,
    has_address: bool,
    is_enabled: bool,
    /// The descriptor of kicks, which starts the ring.
    kick: Option<File>,
    /// What the guest did wrong there since the ring was started.
    fault: Option<RingFault>,
}

/// The back end of one port.
pub(crate) struct BackEnd {
    handover: Arc<Handover>,
    signals: Arc<Signals>,
    settings: BackEndSettings,
    features: u64,
    memory: Option<Arc<GuestMemory>>,
    rings: [RingState; MAX_RINGS],
    /// Receives what happened.
    notify: Box<dyn Fn(Notice) + Send>,
    is_linked: bool,
}

impl BackEnd {
    pub(crate) fn new(
        handover: Arc<Handover>,
        signals: Arc<Signals>,
        settings: BackEndSettings,
        notify: Box<dyn Fn(Notice) + Send>,
    ) -> Self {
        let (rings, is_linked) = (Default::default(), false);
        Self { handover, signals, settings, features: 0, memory: None, rings, notify, is_linked }
    }

    /// Returns the features that front ends may accept.
    fn offered(&self) -> u64 {
        let always = feature::MERGEABLE
            | feature::CONTROL_QUEUE
            | feature::CONTROL_RX
            | feature::ANY_LAYOUT
            | feature::INDIRECT
            | feature::EVENT_INDEX
            | feature::PROTOCOL
            | feature::VERSION_1;
        if self.settings.queue_pairs > 1 { always | feature::MULTI_QUEUE } else { always }
    }

    pub(crate) fn notify(&self, notice: Notice) {
        (self.notify)(notice);
    }

    /// Forgets the front end, which is gone.
    pub(crate) fn disconnect(&mut self) {
        self.change(|this| {
            this.forget_rings();
            (this.memory, this.features) = (None, 0);
        });
    }

    fn forget_rings(&mut self) {
        self.signals.clear();
        for ring in &mut self.rings {
            if let Some(kick) = ring.kick.take() {
                self.handover.remove_kick(kick.as_fd());
            }
            *ring = RingState::default();
        }
    }

    /// Makes a change that the rings depend on, while the loop does not have them.
    fn change<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        if let Some(device) = self.handover.take_back() {
            for (state, queue) in self.rings.iter_mut().zip(&device.rings) {
                if let Some(queue) = queue {
                    (state.config.base, state.fault) = (queue.base(), queue.stopped());
                }
            }
        }
        let result = change(self);
        let device = self.device();
        let pairs = device.as_ref().map(|device| device.senders());
        if let Some(device) = device {
            self.handover.give(Box::new(device));
        }
        self.set_linked(pairs);
        result
    }

    /// Sets whether a guest's driver is there, with this number of queue pairs.
    fn set_linked(&mut self, pairs: Option<usize>) {
        let was_linked = std::mem::replace(&mut self.is_linked, pairs.is_some());
        self.handover.set_linked(self.is_linked);
        match (was_linked, pairs) {
            (false, Some(pairs)) => self.notify(Notice::LinkUp(pairs)),
            (true, None) => self.notify(Notice::LinkDown),
            _ => {}
        }
    }

    /// Builds the rings that are configured, started and enabled; `None` if the first pair is not
    /// among them.
    #[expect(clippy::indexing_slicing, reason = "the rings of the first pair, which an array of all has")]
    fn device(&self) -> Option<Device> {
        let memory = self.memory.as_ref()?;
        let has = |bit| self.features & bit != 0;
        let mut rings: [Option<Queue>; MAX_RINGS] = Default::default();
        for (ring, state) in rings.iter_mut().zip(&self.rings) {
            // Without protocol features a ring is enabled from its start.
            let is_enabled = state.is_enabled || !has(feature::PROTOCOL);
            if state.config.size == 0 || !state.has_address || state.kick.is_none() || !is_enabled {
                continue;
            }
            let (event_index, indirect) = (has(feature::EVENT_INDEX), has(feature::INDIRECT));
            match Queue::new(memory, &RingConfig { event_index, indirect, ..state.config }) {
                Ok(mut queue) => {
                    state.fault.into_iter().for_each(|fault| queue.stop(fault));
                    *ring = Some(queue);
                }
                Err(error) => self.notify(Notice::Refused(error.to_string())),
            }
        }
        let is_complete = rings[rx_ring(0)].is_some() && rings[tx_ring(0)].is_some();
        is_complete.then(|| Device {
            rings,
            header_bytes: if has(feature::VERSION_1 | feature::MERGEABLE) { 12 } else { 10 },
            mergeable: has(feature::MERGEABLE),
            signals: Arc::clone(&self.signals),
        })
    }

    /// Refuses a message, with the reason in the log.
    fn refuse<T>(&self, reason: impl ToString) -> Result<T> {
        self.notify(Notice::Refused(reason.to_string()));
        Err(Error::InvalidParam)
    }

    fn index(&self, index: u32) -> Result<usize> {
        let rings = 2 * self.settings.queue_pairs;
        match usize::try_from(index) {
            Ok(index) if index < rings => Ok(index),
            _ => self.refuse(format!("ring {index} of {rings}")),
        }
    }

    /// Returns a descriptor if it is an eventfd, which cannot do more than block its writer.
    fn eventfd(&self, file: Option<File>, what: &str) -> Result<File> {
        let Some(file) = file else { return self.refuse(format!("{what} without a descriptor")) };
        let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        if name.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]") {
            return Ok(file);
        }
        self.refuse(format!("{what} by a descriptor that is no eventfd"))
    }
}

impl VhostUserBackendReqHandlerMut for BackEnd {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.change(Self::forget_rings);
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        let unknown = features & !self.offered();
        if unknown != 0 {
            return self.refuse(format!("features {unknown:#x}, which were not offered"));
        }
        if features != self.features {
            self.change(|this| this.features = features);
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        let specs = regions.iter().map(|region| RegionSpec {
            guest_addr: region.guest_phys_addr,
            user_addr: region.user_addr,
            len_bytes: region.memory_size,
            file_offset: region.mmap_offset,
        });
        let regions: Vec<_> = specs.zip(files).collect();
        match GuestMemory::map(&regions, self.settings.unsealed) {
            Ok(memory) => {
                let before = self.change(|this| this.memory.replace(Arc::new(memory)));
                drop(before); // unmapped here, not by the loop
                Ok(None)
            }
            Err(error) => {
                self.change(|this| this.memory = None);
                self.refuse(error)
            }
        }
    }

    #[expect(clippy::indexing_slicing, reason = "`index` has checked the ring's number")]
    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let ring = self.index(index)?;
        match u16::try_from(num) {
            Ok(size) if size.is_power_of_two() && size <= MAX_RING => {
                self.change(|this| this.rings[ring].config.size = size);
                Ok(())
            }
            _ => self.refuse(crate::ring::RingError::BadSize(num)),
        }
    }

    #[expect(clippy::indexing_slicing, reason = "`index` has checked the ring's number")]
    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let ring = self.index(index)?;
        self.change(|this| {
            let state = &mut this.rings[ring];
            (state.config.descriptors, state.config.available, state.config.used) =
                (descriptors, available, used);
            state.has_address = true;
        });
        Ok(())
    }

    #[expect(clippy::indexing_slicing, reason = "`index` has checked the ring's number")]
    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let ring = self.index(index)?;
        let Ok(base) = u16::try_from(base) else { return self.refuse(format!("base {base} of a ring")) };
        self.change(|this| this.rings[ring].config.base = base);
        Ok(())
    }

    #[expect(clippy::indexing_slicing, reason = "`index` has checked the ring's number")]
    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let ring = self.index(index)?;
        let base = self.change(|this| {
            // The ring is stopped until the front end sends a descriptor of kicks again.
            if let Some(kick) = this.rings[ring].kick.take() {
                this.handover.remove_kick(kick.as_fd());
            }
            this.rings[ring].fault = None;
            this.signals.set_call(ring, None);
            this.rings[ring].config.base
        });
        Ok(VhostUserVringState::new(index, base.into()))
    }

    #[expect(clippy::indexing_slicing, reason = "`index` has checked the ring's number")]
    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let ring = self.index(index.into())?;
        let kick = self.eventfd(fd, "kicks")?;
        if let Err(error) = self.handover.add_kick(&kick) {
            return self.refuse(format!("kicks: {error}"));
        }
        self.change(|this| {
            if let Some(before) = this.rings[ring].kick.replace(kick) {
                this.handover.remove_kick(before.as_fd());
            }
        });
        Ok(())
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let ring = self.index(index.into())?;
        let call = match fd {
            None => None, // the guest polls
            fd => Some(self.eventfd(fd, "interrupts")?),
        };
        let has_call = call.is_some();
        self.signals.set_call(ring, call);
        if has_call {
            // What was signaled to the previous descriptor may not have reached the guest.
            self.signals.raise(1 << ring);
        }
        Ok(())
    }

    fn set_vring_err(&mut self, _index: u8, _fd: Option<File>) -> Result<()> {
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::RESET_DEVICE)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.settings.queue_pairs as u64)
    }

    #[expect(clippy::indexing_slicing, reason = "`index` has checked the ring's number")]
    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        let ring = self.index(index)?;
        if self.rings[ring].is_enabled != enable {
            self.change(|this| this.rings[ring].is_enabled = enable);
        }
        Ok(())
    }

    fn get_config(&mut self, _offset: u32, _size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn set_config(&mut self, _offset: u32, _buf: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn set_gpu_socket(&mut self, _gpu_backend: GpuBackend) -> Result<()> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn get_inflight_fd(&mut self, _inflight: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn set_inflight_fd(&mut self, _inflight: &VhostUserInflight, _file: File) -> Result<()> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn add_mem_region(
        &mut self,
        _region: &VhostUserSingleMemoryRegion,
        _fd: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<u64>> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn remove_mem_region(&mut self, _region: &VhostUserSingleMemoryRegion) -> Result<()> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _fd: File,
    ) -> Result<Option<File>> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        Err(Error::InvalidOperation("not offered"))
    }
}

impl Drop for BackEnd {
    fn drop(&mut self) {
        self.disconnect();
        self.signals.end();
    }
}

/// Reports faults of the rings since the last look.
pub(crate) fn report_faults(back_end: &BackEnd, reported: &mut u64) {
    let faults = back_end.handover.faults.load(Ordering::Acquire);
    let new = faults.wrapping_sub(std::mem::replace(reported, faults));
    if new > 0 {
        let last = back_end.handover.last_fault.load(Ordering::Relaxed) as usize;
        let name = crate::ring::fault::RingFault::ALL.get(last).map_or("?", |fault| fault.name());
        back_end.notify(Notice::RingFaults(new, name));
    }
}
