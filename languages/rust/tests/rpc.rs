// SPDX-License-Identifier: Apache-2.0
//! The document's own frames, and a real server: RUBATO_RPC_SERVER is the program of
//! examples/rpc_echo.cc.
use rubato::rpc::{Client, Error, Frame, Patience};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

fn document() -> Vec<(String, Vec<u8>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/RPC.md");
    let text = std::fs::read_to_string(path).unwrap();
    let block = text.split("<!-- frames -->\n```\n").nth(1).unwrap().split("```").next().unwrap();
    let line = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let name = words.next().unwrap().to_string();
        let hex: String = words.collect();
        let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
        (name, (0..hex.len()).step_by(2).map(byte).collect())
    };
    block.lines().map(line).collect()
}

#[test]
fn the_document_s_frames_are_read_and_written() {
    let frames = document();
    assert!(!frames.is_empty());
    for (name, bytes) in frames {
        let frame = Frame::read(&mut &bytes[..]).unwrap();
        assert_eq!(frame.session, 7, "{name}");
        assert_eq!(frame.encode(), bytes, "{name}");
    }
}

#[test]
fn other_bytes_are_no_frame() {
    assert!(Frame::read(&mut &b"GET / HTTP/1.1\r\n\r\n......."[..]).is_err());
    let (_, mut large) = document().remove(0);
    large[4] = 0xff;
    assert!(Frame::read(&mut &large[..]).is_err());
}

struct Server(Child, u16);

impl Server {
    fn start() -> Option<Server> {
        let program = std::env::var_os("RUBATO_RPC_SERVER")?;
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
        Some(Server(child, port))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

const PATIENT: Patience =
    Patience { expire: Duration::from_secs(60), answer: Duration::from_secs(60) };

// A busy machine may be an overloaded one.
fn call(client: &Client, body: &[u8]) -> Vec<u8> {
    loop {
        match client.call(body) {
            Err(Error::Refused { retry_after, .. }) => std::thread::sleep(retry_after),
            result => return result.unwrap(),
        }
    }
}

#[test]
fn threads_share_a_session_with_a_server() {
    let server = if let Some(server) = Server::start() { server } else {
        println!("skipped: RUBATO_RPC_SERVER is not set");
        return;
    };
    let client = Arc::new(Client::connect(("127.0.0.1", server.1), PATIENT).unwrap());
    let call_some = |thread: u32, client: Arc<Client>| {
        for i in 0..200 {
            let body = format!("{thread} {i}").into_bytes();
            assert_eq!(call(&client, &body), body);
        }
    };
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let client = Arc::clone(&client);
            std::thread::spawn(move || call_some(thread, client))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(client.credit() <= 63);
}

#[test]
fn a_server_that_goes_loses_what_was_sent() {
    let server = if let Some(server) = Server::start() { server } else {
        println!("skipped: RUBATO_RPC_SERVER is not set");
        return;
    };
    let client = Arc::new(Client::connect(("127.0.0.1", server.1), PATIENT).unwrap());
    assert_eq!(call(&client, b"one"), b"one");
    let slow = Arc::clone(&client);
    let long = std::thread::spawn(move || slow.call(b"work 999999"));
    assert_eq!(call(&client, b"two"), b"two");
    drop(server);
    assert!(matches!(long.join().unwrap(), Err(Error::Lost(_))));
    assert!(matches!(client.call(b"three"), Err(Error::Lost(_))));
}
