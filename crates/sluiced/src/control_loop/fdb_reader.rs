//! Reads the FDB for clients, page by page, so that no iteration of the poll loop takes long.
//!
//! Rule: one client is served at a time, from the first slot to the last. Addresses may move
//! between pages meanwhile, as in any table that is read while frames arrive.

use std::collections::VecDeque;

use control::{CommandError, v1};
use dataplane::LoopCommand;
use switch::{FdbEntry, FdbPage};
use tokio::sync::oneshot;

/// What a client asked for.
#[derive(Debug)]
pub struct FdbQuery {
    /// Limits the list to the port in this slot.
    pub port: Option<usize>,
    /// Limits the list to this VLAN.
    pub vlan: Option<u16>,
    /// Channel for the list.
    pub answer: oneshot::Sender<Result<Vec<v1::FdbEntry>, CommandError>>,
}

/// The clients that wait for the FDB, and what the first of them has so far.
#[derive(Debug, Default)]
pub struct FdbReader {
    waiting: VecDeque<FdbQuery>,
    entries: Vec<v1::FdbEntry>,
    /// The page that the poll loop is to fill next.
    next_page: Option<Box<FdbPage>>,
    /// True while the poll loop has the page.
    is_reading: bool,
}

impl FdbReader {
    /// Adds a client.
    pub fn request(&mut self, query: FdbQuery) {
        self.waiting.push_back(query);
    }

    /// True while clients wait.
    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the next command to the poll loop.
    pub fn poll(&mut self) -> Option<LoopCommand> {
        if self.is_reading || self.waiting.is_empty() {
            return None;
        }
        self.is_reading = true;
        Some(LoopCommand::Fdb(self.next_page.take().unwrap_or_default()))
    }

    /// Takes a page from the poll loop; `name` returns the name of the port in a slot.
    pub fn on_page(&mut self, page: Box<FdbPage>, name: impl Fn(usize) -> Option<String>) {
        self.is_reading = false;
        let Some(query) = self.waiting.front() else { return };
        let is_meant = |entry: &&FdbEntry| {
            query.port.is_none_or(|port| entry.port == port)
                && query.vlan.is_none_or(|vlan| entry.vid == vlan)
        };
        for entry in page.entries.iter().filter(is_meant) {
            self.entries.push(v1::FdbEntry {
                address: entry.mac.to_string(),
                vlan: entry.vid.into(),
                port: name(entry.port).unwrap_or_default(),
                is_static: entry.is_static,
                age_ns: entry.age_ns,
            });
        }
        if !page.is_last {
            self.next_page = Some(page);
            return;
        }
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_by(|a, b| (a.vlan, &a.address).cmp(&(b.vlan, &b.address)));
        if let Some(query) = self.waiting.pop_front() {
            let _ = query.answer.send(Ok(entries)); // a client that has disconnected needs none
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::mac::MacAddr;

    fn entry(n: u8, port: usize) -> FdbEntry {
        FdbEntry { mac: MacAddr([2, 0, 0, 0, 0, n]), vid: 0, port, is_static: false, age_ns: 7 }
    }

    /// Two clients, the first of which wants port 1 only; the table has two pages.
    #[test]
    fn clients_are_served_one_after_the_other() {
        let mut reader = FdbReader::default();
        let mut answers = Vec::new();
        for port in [Some(1), None] {
            let (answer, answered) = oneshot::channel();
            reader.request(FdbQuery { port, vlan: None, answer });
            answers.push(answered);
        }
        let mut pages = 0;
        while let Some(command) = reader.poll() {
            assert!(reader.poll().is_none(), "one page at a time");
            let LoopCommand::Fdb(mut page) = command else { panic!("{command:?}") };
            page.entries = vec![entry(9 - pages % 2, usize::from(pages % 2))];
            page.is_last = pages % 2 == 1;
            pages += 1;
            reader.on_page(page, |port| Some(format!("p{port}")));
        }
        assert_eq!((pages, reader.is_busy()), (4, false));
        let lists = answers.iter_mut().map(|answer| answer.try_recv().unwrap().unwrap());
        let lists: Vec<Vec<String>> = lists
            .map(|list| list.iter().map(|entry| format!("{} {}", entry.address, entry.port)).collect())
            .collect();
        assert_eq!(lists[0], ["02:00:00:00:00:08 p1"]);
        assert_eq!(lists[1], ["02:00:00:00:00:08 p1", "02:00:00:00:00:09 p0"]);
    }
}
