// SPDX-License-Identifier: Apache-2.0
//! A client of Rubato RPC over TCP, by docs/RPC.md alone. Any number of threads share a session; a
//! call waits while the server gives it no credit, and is given up unsent after `expire`. Nothing is
//! retried.
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const HELLO: u8 = 0x01;
const REQUEST: u8 = 0x02;
const DEMAND: u8 = 0x03;
const GOODBYE: u8 = 0x04;
const WELCOME: u8 = 0x81;
const RESPONSE: u8 = 0x82;
const CREDIT: u8 = 0x83;
const REFUSAL: u8 = 0x84;
const ERROR: u8 = 0x85;
const HEADER_BYTES: usize = 24;
const MOST_BODY: usize = 16 << 20;

/// Why a call has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// By the server, which did not run it: 1 overloaded, 2 queues full, 4 beyond the credit.
    Refused { reason: u8, class: u8, retry_after: Duration },
    /// By the application.
    Failed(String),
    /// Never sent: it waited for credit for too long.
    Expired,
    /// Sent, and no answer came: it may have been run.
    Lost(String),
    /// A body has at most 16 MiB.
    TooLarge,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused { reason, retry_after, .. } => {
                write!(f, "refused for reason {reason}, retry after {retry_after:?}")
            }
            Error::Failed(text) => write!(f, "failed: {text}"),
            Error::Expired => f.write_str("no credit in time"),
            Error::Lost(why) => write!(f, "lost: {why}"),
            Error::TooLarge => f.write_str("a body has at most 16 MiB"),
        }
    }
}

impl std::error::Error for Error {}

/// One frame of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub session: u32,
    pub amount: u32,
    pub id: u64,
    pub body: Vec<u8>,
}

impl Frame {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.body.len());
        bytes.extend_from_slice(&[b'R', b'B', 1, self.kind]);
        bytes.extend_from_slice(&(self.body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&self.session.to_be_bytes());
        bytes.extend_from_slice(&self.amount.to_be_bytes());
        bytes.extend_from_slice(&self.id.to_be_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Reads one; an error if the bytes are no frame, or end.
    pub fn read(from: &mut impl Read) -> io::Result<Frame> {
        let mut head = [0; HEADER_BYTES];
        from.read_exact(&mut head)?;
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let size = word(4) as usize;
        if head[..3] != *b"RB\x01" || size > MOST_BODY {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no frame of Rubato RPC"));
        }
        let mut body = vec![0; size];
        from.read_exact(&mut body)?;
        let id = u64::from_be_bytes(head[16..24].try_into().unwrap());
        Ok(Frame { kind: head[3], session: word(8), amount: word(12), id, body })
    }
}

/// How long calls wait.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For credit, before a call is given up unsent.
    pub expire: Duration,
    /// For the answer of a call that was sent.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { expire: Duration::from_millis(10), answer: Duration::from_secs(1) }
    }
}

#[derive(Default)]
struct State {
    credit: u32,
    queued: u32,
    demanded: bool,
    greeted: bool,
    welcomed: bool,
    spent_first: bool,
    next_id: u64,
    unanswered: usize,
    /// Calls that were sent and are waited for; `Some` once they have ended.
    waiting: HashMap<u64, Option<Result<Vec<u8>, Error>>>,
    lost: Option<String>,
}

impl State {
    /// Whether one more request may go: the first one needs no credit.
    fn may_send(&self) -> bool {
        let allowed = if self.spent_first { self.credit } else { self.credit.max(1) };
        (self.welcomed || !self.greeted) && self.unanswered < allowed as usize
    }
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    session: u32,
}

/// A session with a server; dropped, it says goodbye.
pub struct Client {
    shared: Arc<Shared>,
    socket: TcpStream,
    reader: Option<JoinHandle<()>>,
    patience: Patience,
}

impl Client {
    pub fn connect(address: impl ToSocketAddrs, patience: Patience) -> io::Result<Client> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State { next_id: 1, ..State::default() }),
            changed: Condvar::new(),
            session: 1,
        });
        let (theirs, mut from) = (Arc::clone(&shared), socket.try_clone()?);
        let reader = std::thread::spawn(move || theirs.receive(&mut from));
        Ok(Client { shared, socket, reader: Some(reader), patience })
    }

    /// Sends a request and waits for its reply. Any thread.
    pub fn call(&self, body: &[u8]) -> Result<Vec<u8>, Error> {
        if body.len() > MOST_BODY {
            return Err(Error::TooLarge);
        }
        let mut state = self.wait_for_credit()?;
        let (id, kind) = (state.next_id, if state.greeted { REQUEST } else { HELLO });
        state.next_id += 1;
        state.unanswered += 1;
        state.waiting.insert(id, None);
        state.greeted = true;
        state.spent_first = true;
        self.send(&mut state, kind, id, body)?;
        let due = Instant::now() + self.patience.answer;
        loop {
            if let Some(Some(_)) = state.waiting.get(&id) {
                return state.waiting.remove(&id).flatten().expect("it has ended");
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.waiting.remove(&id); // a late answer finds nobody
                state.unanswered -= 1;
                return Err(Error::Lost("no answer came in time".into()));
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// The requests that may be unanswered at once, as the server said last.
    pub fn credit(&self) -> u32 {
        self.shared.state.lock().unwrap().credit
    }

    fn wait_for_credit(&self) -> Result<MutexGuard<'_, State>, Error> {
        let due = Instant::now() + self.patience.expire;
        let mut state = self.shared.state.lock().unwrap();
        state.queued += 1;
        loop {
            if state.lost.is_some() || state.may_send() {
                state.queued -= 1;
                return match &state.lost {
                    Some(why) => Err(Error::Lost(why.clone())),
                    None => Ok(state),
                };
            }
            if state.welcomed && !state.demanded {
                self.send(&mut state, DEMAND, 0, b"")?;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.queued -= 1;
                if state.queued == 0 && state.unanswered == 0 && state.demanded {
                    self.send(&mut state, DEMAND, 0, b"")?;
                }
                return Err(Error::Expired);
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    // Under the lock, so that what frames say of the queue stays in order.
    fn send(&self, state: &mut State, kind: u8, id: u64, body: &[u8]) -> Result<(), Error> {
        state.demanded = state.queued > 0;
        let amount = state.queued.min(65535);
        let session = self.shared.session;
        let frame = Frame { kind, session, amount, id, body: body.to_vec() };
        (&self.socket).write_all(&frame.encode()).map_err(|trouble| {
            state.lost = Some(trouble.to_string());
            self.shared.changed.notify_all();
            Error::Lost(trouble.to_string())
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Ok(mut state) = self.shared.state.lock() {
            let _ = self.send(&mut state, GOODBYE, 0, b"");
        }
        let _ = self.socket.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Shared {
    fn receive(&self, from: &mut TcpStream) {
        let why = loop {
            match Frame::read(from).map_err(|e| e.to_string()).and_then(|frame| self.take(frame)) {
                Ok(()) => self.changed.notify_all(),
                Err(why) => break why,
            }
        };
        let mut state = self.state.lock().unwrap();
        for slot in state.waiting.values_mut() {
            slot.get_or_insert_with(|| Err(Error::Lost(why.clone())));
        }
        state.lost = Some(why);
        self.changed.notify_all();
    }

    fn take(&self, frame: Frame) -> Result<(), String> {
        let mut state = self.state.lock().unwrap();
        let text = || String::from_utf8_lossy(&frame.body).into_owned();
        if frame.kind == ERROR && frame.id == 0 {
            return Err(text());
        }
        let result = match frame.kind {
            WELCOME | CREDIT => None,
            RESPONSE => Some(Ok(frame.body.clone())),
            ERROR => Some(Err(Error::Failed(text()))),
            REFUSAL if frame.body.len() == 8 => {
                let micros = u32::from_be_bytes(frame.body[4..8].try_into().unwrap());
                let retry_after = Duration::from_micros(micros.into());
                Some(Err(Error::Refused { reason: frame.body[0], class: frame.body[1], retry_after }))
            }
            kind => return Err(format!("a frame of kind {kind:#x}")),
        };
        if let (Some(result), Some(slot)) = (result, state.waiting.get_mut(&frame.id)) {
            if slot.replace(result).is_none() {
                state.unanswered -= 1;
            }
        }
        if frame.kind != ERROR {
            state.welcomed = true;
            state.credit = frame.amount;
        }
        Ok(())
    }
}
