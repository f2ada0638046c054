//! Cost of reading a frame: nanoseconds for each function that runs once per frame.

use divan::{Bencher, black_box};
use wire::ethernet::{self, Header, Tag};
use wire::ip::DsField;
use wire::{MacAddr, checksum, ones_complement};

fn main() {
    divan::main();
}

/// A TCP segment of `payload` bytes over IPv4. Its checksum is open as Linux leaves it, or wrong so
/// that it stays.
fn tcp(tag: Option<Tag>, payload: usize, open: bool) -> Vec<u8> {
    let mut frame = vec![0; 1600];
    let start = ethernet::write_header(
        &mut frame,
        MacAddr([2, 0, 0, 0, 0, 1]),
        MacAddr([2, 0, 0, 0, 0, 2]),
        tag,
        ethernet::IPV4,
    );
    let segment = 20 + payload;
    let ip = &mut frame[start..];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&(20 + segment as u16).to_be_bytes());
    ip[9] = 6;
    ip[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = ones_complement::Sum::default().bytes(&ip[12..20]).number(6).number(segment as u16).fold();
    ip[36..38].copy_from_slice(&(if open { sum } else { !sum }).to_be_bytes());
    frame.truncate(start + 20 + segment);
    frame
}

#[divan::bench]
fn parse_untagged(bencher: Bencher) {
    let frame = tcp(None, 10, false);
    bencher.bench_local(|| Header::parse(black_box(&frame)));
}

#[divan::bench]
fn parse_tagged(bencher: Bencher) {
    let frame = tcp(Some(Tag::priority(3)), 6, false);
    bencher.bench_local(|| Header::parse(black_box(&frame)));
}

#[divan::bench]
fn checksum_not_open(bencher: Bencher) {
    let mut frame = tcp(None, 1460, false);
    let header = Header::parse(&frame).unwrap();
    let field = DsField::find(&frame, &header).unwrap();
    bencher.bench_local(|| checksum::complete_transport(black_box(&mut frame), black_box(field)));
}

#[divan::bench(args = [10, 1460])]
fn checksum_sum(bencher: Bencher, payload: usize) {
    let frame = tcp(None, payload, true);
    bencher.bench_local(|| ones_complement::Sum::default().bytes(black_box(&frame[34..])).fold());
}
