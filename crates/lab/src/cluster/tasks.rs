//! Where a cluster's asynchronous parts run: on threads of their own in the lab's home namespace.

use std::sync::mpsc;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Result, Trying};
use crate::lab::Lab;

#[derive(Debug)]
pub(super) struct Tasks(Option<Runtime>);

impl Tasks {
    pub(super) fn new(lab: &Lab) -> Result<Self> {
        let build =
            || Builder::new_multi_thread().worker_threads(2).thread_name("cluster").enable_all().build();
        // Threads start in the namespaces of the thread that makes them.
        lab.home().run(build).map(|runtime| Self(Some(runtime))).trying(|| "start a runtime".into())
    }

    pub(super) fn handle(&self) -> &Handle {
        self.0.as_ref().expect("the runtime is taken in Drop only").handle()
    }

    /// Runs a future to its end and blocks until then. Unlike the runtime's own way this may be called from any thread, also
    /// from one that runs another runtime.
    pub(super) fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let (reply, answer) = mpsc::channel();
        self.handle().spawn(async move {
            let _ = reply.send(future.await);
        });
        answer.recv().expect("a task that does not panic answers")
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
