//! Messages of dial-out, as the reference collector receives them, and the replies of collectors.
//!
//! Rule: chunks make a message or an error, memory for incomplete ones is given back, and text of
//! the sender reaches a terminal without control characters. An input is a sequence of messages,
//! each after its length.

use control::{MOST_NAME, printable};
use prost::Message;
use telemetry::collector::{ChunkAssembler, SequenceState};
use telemetry::dialout::{ChunkInfo, DeviceInfo, DialoutMsg, DialoutResponse};

use crate::input::Input;

/// Passes the messages of an input to a collector.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (mut assembler, mut sequence) = (ChunkAssembler::default(), SequenceState::default());
    while !input.is_empty() {
        let len = usize::from(input.number());
        let body = input.take(len);
        if let Ok(reply) = DialoutResponse::decode(body) {
            check_text(&reply.response);
        }
        let Ok(message) = DialoutMsg::decode(body) else { continue };
        match assembler.add(message) {
            Ok(Some((device, path, json))) => {
                let shown = check_text(&path);
                sequence.note(&device.device_name, &shown, json.len() as u64);
            }
            Ok(None) => {}
            Err(status) => drop(check_text(status.message())),
        }
    }
    let all = assembler.bytes_of_all();
    drop(assembler);
    assert_eq!(all.load(std::sync::atomic::Ordering::Relaxed), 0, "nothing is kept");
}

/// Checks that a text can be shown, and returns it as it is shown.
fn check_text(text: &str) -> String {
    let shown = printable(text, MOST_NAME);
    assert!(shown.chars().count() <= MOST_NAME + 1 && !shown.chars().any(char::is_control), "{shown:?}");
    shown
}

/// A message, one in three chunks and one chunk too many, and a reply.
pub fn seeds() -> Vec<Vec<u8>> {
    let message = |text: &str, chunk_msg| DialoutMsg {
        device_msg: DeviceInfo { device_name: "sw1".into(), ..DeviceInfo::default() },
        sensor_path: "sluice/events".into(),
        json_data: text.into(),
        chunk_msg,
    };
    let chunk = |node_id| Some(ChunkInfo { total_size: 6, total_fragments: 3, node_id });
    let sequence = |messages: &[Vec<u8>]| {
        let with_len = |body: &Vec<u8>| [&(body.len() as u16).to_be_bytes()[..], body].concat();
        messages.iter().flat_map(with_len).collect()
    };
    let chunks: Vec<Vec<u8>> =
        (0..3).chain([u64::MAX]).map(|node| message("ab", chunk(node)).encode_to_vec()).collect();
    let reply = DialoutResponse { response: "test".into() };
    vec![
        sequence(&[message("{}", None).encode_to_vec()]),
        sequence(&chunks),
        sequence(&[reply.encode_to_vec()]),
    ]
}
