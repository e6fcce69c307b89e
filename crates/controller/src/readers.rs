//! Lends the World to other parts of the process, between two steps of the control loop.

use portolan_model::World;
use tokio::sync::{mpsc, oneshot};

/// What is done with the World. It must not take long: the control loop waits meanwhile.
type Read = Box<dyn FnOnce(&World) + Send>;

/// How many reads may wait.
const WAITING: usize = 16;

/// Reads the World of a controller.
#[derive(Clone, Debug)]
pub struct Reader(mpsc::Sender<Read>);

/// The reads that a controller answers; see [`readers`].
#[derive(Debug)]
pub struct Reads(mpsc::Receiver<Read>);

/// A reader, and what the controller needs to answer it.
pub fn readers() -> (Reader, Reads) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Reader(sender), Reads(receiver))
}

impl Reader {
    /// What `read` makes of the World, once everything was listed; none if the controller has stopped.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        let read: Read = Box::new(move |world| {
            // Whoever asked may have gone.
            let _ = sender.send(read(world));
        });
        self.0.send(read).await.ok()?;
        receiver.await.ok()
    }
}

impl Reads {
    /// No reads: for a controller that lends its World to nobody.
    pub(crate) fn none() -> Self {
        readers().1
    }

    pub(crate) async fn next(&mut self) -> Option<Read> {
        self.0.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_gets_an_answer_or_learns_that_there_is_none() {
        let (reader, mut reads) = readers();
        let answered = tokio::spawn(async move { (reads.next().await.expect("a read"))(&World::default()) });
        assert_eq!(reader.read(|world| world.units().count()).await, Some(0));
        answered.await.expect("no panic");
        assert_eq!(reader.read(|world| world.units().count()).await, None, "the controller has stopped");
    }
}
