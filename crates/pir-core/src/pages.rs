//! Memory for databases, in huge pages where the system has them: a scan of ordinary ones waits for addresses to be
//! looked up, and the system clears and hands them out one by one.

use core::ops::{Deref, DerefMut};

use memmap2::MmapMut;

use crate::Error;

/// Bytes that begin at a page.
pub(crate) struct Pages(MmapMut);

impl Pages {
    /// So many zeros.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system has no room for them.
    pub(crate) fn zeroed(bytes: usize) -> Result<Self, Error> {
        let memory = MmapMut::map_anon(bytes).map_err(|_| Error::Memory { bytes })?;
        // A wish: without huge pages everything works, more slowly.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        Ok(Self(memory))
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
