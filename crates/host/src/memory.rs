//! The memory of the process itself.

/// Keeps the process small at the expense of threads that ask for memory at the same moment: they share what glibc would give each of them
/// by itself, which is 8 heaps per processor, each with what was free in it at some time; and what is large, such as the answer to a list,
/// goes back to the kernel as soon as it is not used any more, however large such answers were before.
///
/// To be called before there are threads, which keep the heap that they have. Other libraries than glibc are left as they are.
pub fn keep_small() {
    #[cfg(target_env = "gnu")]
    set(&[
        (nix::libc::M_ARENA_MAX, 1),
        (nix::libc::M_MMAP_THRESHOLD, LARGE),
        (nix::libc::M_TRIM_THRESHOLD, LARGE),
    ]);
}

/// What both thresholds are at first. glibc raises them as it goes, unless they are set.
#[cfg(target_env = "gnu")]
const LARGE: nix::libc::c_int = 128 * 1024;

#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "nix has no other way to do it")]
fn set(settings: &[(nix::libc::c_int, nix::libc::c_int)]) {
    for (setting, value) in settings {
        // SAFETY: it takes two numbers, and the lock of the heap. A setting that it does not know it leaves alone.
        unsafe { nix::libc::mallopt(*setting, *value) };
    }
}
