use super::*;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![len[1], len[2], len[3], kind, flags, 0, 0, 0, 1];
    frame.extend(payload);
    frame
}

/// A literal field by the name's place in the table, or by its name.
fn field(first: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut field = vec![first];
    if first & 0x3f == 0 {
        field.push(name.len() as u8);
        field.extend(name);
    }
    match value.len().checked_sub(0x7f) {
        Some(more) => field.extend([0x7f, (more & 0x7f) as u8 | 0x80, (more >> 7) as u8]),
        None => field.push(value.len() as u8),
    }
    field.extend(value);
    field
}

/// A connection with this authority among other headers, in every form that a client may send it.
fn connection(authority: &[u8]) -> Vec<u8> {
    let path = field(0x44, b"", b"/arrow.flight/%2F");
    let block: Vec<u8> = [
        &[0x3f, 0xe1, 0x1f, 0x83, 0xff, 0x80, 0x01][..],
        &path,
        &field(0x41, b"", authority),
        &field(0x40, b"a/%", b"/%"),
        &field(0x40, b":autho/ity", b"/%"),
        &field(0x0f, b"", b"")[..1],
        &[0x2d, 2, b'/', b'%'],
    ]
    .concat();
    let (first, last) = block.split_at(block.len() - 30);
    let around = [&[3, 1, 1, 1, 1, 1][..], first, b"%/%"].concat();
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, &[0; 12]),
        frame(HEADERS, PADDED | PRIORITY, &around),
        frame(CONTINUATION, 4, last),
        frame(0, 1, b"\x41\x03%/%data /%"),
        frame(HEADERS, 4, &field(0x01, b"", authority)),
        frame(HEADERS, 4, &field(0x40, AUTHORITY, authority)),
        frame(HEADERS, 4, &field(0x00, AUTHORITY, authority)),
        frame(HEADERS, 4, &[]),
        frame(HEADERS, 4, &[0x81, 0x41, 0x82, b'%', b'/']),
    ]
    .concat()
}

#[test]
fn a_path_is_made_a_name_wherever_it_is_cut_and_nothing_else_is_touched() {
    // As long as a path can be when every byte is three: its length takes three bytes, of which no part is zero.
    let long = [b"%2Ftmp%2F".as_slice(), &[b'x'; 300], b"/prebake.sock"].concat();
    for path in [&b"%2Ftmp%2Fx%2Fprebake.sock"[..], b"/run/x.sock", b"", &long] {
        let name: Vec<u8> = path
            .iter()
            .map(|b| if b"%/".contains(b) { b'-' } else { *b })
            .collect();
        let (sent, expected) = (connection(path), connection(&name));
        for len in [1, 2, 3, 7, 64, sent.len()] {
            let (mut got, mut frames) = (sent.clone(), Frames::default());
            got.chunks_mut(len).for_each(|part| frames.pass(part));
            assert_eq!(
                String::from_utf8_lossy(&got),
                String::from_utf8_lossy(&expected),
                "in parts of {len}"
            );
        }
    }
}
