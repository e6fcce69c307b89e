//! A disk in memory, that can fail, and lose what was not synced.

use std::io::{Error, ErrorKind};
use std::sync::{Arc, Condvar, Mutex};

use redb::StorageBackend;

/// What is written whole or not at all.
const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    state: Arc<Mutex<State>>,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

/// Where syncs wait.
#[derive(Debug, Default)]
struct Gate {
    is_closed: bool,
    waiting: u32,
    passed: u32,
}

#[derive(Debug, Default)]
struct State {
    /// What who is running reads.
    file: Vec<u8>,
    /// What is there for sure after a power loss.
    synced: Vec<u8>,
    /// What may be there too, in part and in any order.
    unsynced: Vec<Write>,
    /// How many more syncs and writes do well.
    syncs_left: Option<u32>,
    writes_left: Option<u32>,
}

#[derive(Clone, Debug)]
enum Write {
    Length(usize),
    Data(usize, Vec<u8>),
}

impl Disk {
    /// The disk after a power loss now: of what was not synced each sector is there or not, by chance.
    pub(super) fn after_power_loss(&self, mut chance: impl FnMut() -> bool) -> Disk {
        let state = self.state.lock().unwrap();
        let mut file = state.synced.clone();
        for write in &state.unsynced {
            match write {
                Write::Length(length) => file.resize(*length, 0),
                Write::Data(offset, data) => {
                    for (index, sector) in data.chunks(SECTOR).enumerate() {
                        if chance() {
                            put(&mut file, offset + index * SECTOR, sector);
                        }
                    }
                }
            }
        }
        let state = State { synced: file.clone(), file, ..State::default() };
        Disk { state: Arc::new(Mutex::new(state)), ..Disk::default() }
    }

    pub(super) fn fail_syncs_after(&self, count: u32) {
        self.state.lock().unwrap().syncs_left = Some(count);
    }

    pub(super) fn fail_writes_after(&self, count: u32) {
        self.state.lock().unwrap().writes_left = Some(count);
    }

    /// Lets no sync end, until the gate is opened.
    pub(super) fn close_gate(&self) {
        self.gate.0.lock().unwrap().is_closed = true;
    }

    /// Returns when a sync waits at the gate.
    pub(super) fn wait_for_sync(&self) {
        let (gate, moved) = &*self.gate;
        drop(moved.wait_while(gate.lock().unwrap(), |gate| gate.waiting == 0).unwrap());
    }

    pub(super) fn open_gate(&self) {
        let (gate, moved) = &*self.gate;
        gate.lock().unwrap().is_closed = false;
        moved.notify_all();
    }

    /// How many syncs there were.
    pub(super) fn syncs(&self) -> u32 {
        self.gate.0.lock().unwrap().passed
    }

    fn pass_gate(&self) {
        let (gate, moved) = &*self.gate;
        let mut entered = gate.lock().unwrap();
        entered.waiting += 1;
        moved.notify_all();
        let mut state = moved.wait_while(entered, |gate| gate.is_closed).unwrap();
        state.waiting -= 1;
        state.passed += 1;
    }

    pub(super) fn mend(&self) {
        let mut state = self.state.lock().unwrap();
        (state.syncs_left, state.writes_left) = (None, None);
    }
}

fn put(file: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(data);
}

fn spend(left: &mut Option<u32>, what: &str) -> Result<(), Error> {
    if let Some(left) = left {
        *left = left.checked_sub(1).ok_or_else(|| Error::other(format!("no {what} today")))?;
    }
    Ok(())
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a small file")
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, Error> {
        Ok(self.state.lock().unwrap().file.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let state = self.state.lock().unwrap();
        let start = index(offset);
        let data = state.file.get(start..start + out.len()).ok_or(ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(data);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap();
        state.file.resize(index(len), 0);
        state.unsynced.push(Write::Length(index(len)));
        Ok(())
    }

    fn sync_data(&self) -> Result<(), Error> {
        self.pass_gate();
        let mut state = self.state.lock().unwrap();
        spend(&mut state.syncs_left, "sync")?;
        for write in std::mem::take(&mut state.unsynced) {
            match write {
                Write::Length(length) => state.synced.resize(length, 0),
                Write::Data(offset, data) => put(&mut state.synced, offset, &data),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap();
        spend(&mut state.writes_left, "write")?;
        put(&mut state.file, index(offset), data);
        state.unsynced.push(Write::Data(index(offset), data.to_vec()));
        Ok(())
    }
}
