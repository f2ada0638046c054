//! Batch rings: batches arrive in order, none is lost or made, and the count of items is never
//! above what there is room for and 0 once the ring is empty.

use std::sync::Arc;

use crate::shared::thread;

#[path = "../../src/io_core/batch_ring.rs"]
mod batch_ring;

use batch_ring::BatchRing;

const BATCHES: usize = 2;
const OF_A_BATCH: usize = 2;

#[test]
fn batches_arrive_once_and_in_order() {
    crate::check(Some(3), || {
        let ring = Arc::new(BatchRing::new(BATCHES, OF_A_BATCH));
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut items: Vec<u32> = (0..5).collect();
                let mut pushed = 0;
                // What finds no batch stays with the producer.
                while pushed < 3 && ring.push(pushed, &mut items) {
                    pushed += 1;
                }
                (pushed, items)
            })
        };
        let (mut taken, mut notes) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            notes.extend(ring.pop(&mut taken));
            assert!(ring.items() <= BATCHES * OF_A_BATCH, "{}", ring.items());
        }
        let (pushed, left) = producer.join().unwrap();
        notes.extend(std::iter::from_fn(|| ring.pop(&mut taken)));
        assert_eq!(notes, (0..pushed).collect::<Vec<_>>());
        assert_eq!([taken, left].concat(), (0..5).collect::<Vec<_>>());
        assert_eq!((ring.items(), ring.room(), ring.is_empty()), (0, BATCHES, true));
    });
}

#[test]
fn items_leave_in_order_and_a_full_ring_accepts_none() {
    crate::check(None, || {
        let ring = BatchRing::new(2, 3);
        let mut items: Vec<u8> = (0..9).collect();
        assert!(ring.push(7, &mut items) && ring.push(8, &mut items));
        assert!(!ring.push(9, &mut items), "two batches are there");
        assert_eq!((items.len(), ring.items(), ring.room()), (3, 6, 0));
        let mut out = vec![100];
        assert_eq!(ring.pop(&mut out), Some(7));
        assert!(ring.push(9, &mut items));
        assert_eq!([ring.pop(&mut out), ring.pop(&mut out), ring.pop(&mut out)], [Some(8), Some(9), None]);
        assert_eq!(out, [100, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((ring.items(), ring.room(), ring.is_empty()), (0, 2, true));
    });
}

/// A batch can consist of its note alone.
#[test]
fn a_batch_may_be_empty() {
    crate::check(None, || {
        let ring = BatchRing::<u8>::new(1, 3);
        assert!(ring.push(5, &mut Vec::new()) && !ring.is_empty());
        assert_eq!((ring.pop(&mut Vec::new()), ring.is_empty()), (Some(5), true));
    });
}
