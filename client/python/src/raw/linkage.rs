//! The objects in memory (the program, libraries, modules), of which each has its calls exchanged once (see [`Object`]): those that
//! are there, and those that are loaded later.

use super::object::{Object, Replace, Seen};
use libc::{c_int, c_void, dl_phdr_info, size_t};
use std::cell::UnsafeCell;
use std::collections::HashSet;
use std::ffi::CStr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{ptr, slice, thread};

/// Objects whose tables were gone through, by where they lie; none before the first time.
type Places = Option<HashSet<usize>>;

/// These, and whether a thread is at them. A lock of a library's own would be no lock in a forked child, where the thread that
/// holds it, or waits, is none: this one is.
struct Known {
    is_taken: AtomicBool,
    places: UnsafeCell<Places>,
}

// SAFETY: the places are touched by the one thread that has taken them.
unsafe impl Sync for Known {}

static KNOWN: Known = Known {
    is_taken: AtomicBool::new(false),
    places: UnsafeCell::new(None),
};
/// Who waits for another thread looks so often.
const LOOK: Duration = Duration::from_micros(50);
/// How many objects were loaded and unloaded by then.
static LOADED: AtomicU64 = AtomicU64::new(0);
static UNLOADED: AtomicU64 = AtomicU64::new(0);

/// What the loader tells: how many objects it loaded and unloaded, and those that are there.
#[derive(Default)]
struct Told {
    loaded: u64,
    unloaded: u64,
    /// None where only the numbers are asked for.
    seen: Option<Vec<Seen>>,
}

/// Whether there are objects that were not gone through.
pub(super) fn is_due() -> bool {
    let told = told(Told::default());
    (told.loaded, told.unloaded) != (LOADED.load(Ordering::Acquire), UNLOADED.load(Ordering::Acquire))
}

/// Has functions replaced in objects that were not gone through before; whether there were any, but for the first time. It waits
/// for other threads that load one. Who is called while it loads one itself must not: `is_patient` is false, and where
/// another thread goes through them the next call does.
pub(super) fn attend(replace: Replace, is_patient: bool) -> bool {
    let Some(mut known) = Taken::new(is_patient) else {
        return true;
    };
    let known = known.places();
    let told = told(Told {
        seen: Some(Vec::new()),
        ..Told::default()
    });
    if LOADED.load(Ordering::Relaxed) == told.loaded && UNLOADED.load(Ordering::Relaxed) == told.unloaded {
        // Another thread did while this one waited.
        return true;
    }
    let is_first = known.is_none();
    let known = known.get_or_insert_default();
    if UNLOADED.load(Ordering::Relaxed) != told.unloaded {
        // Another object may lie where one was.
        known.clear();
    }
    let mut is_all = true;
    let all = told.seen.unwrap_or_default();
    let system: Vec<Range<usize>> = all
        .iter()
        .filter(|each| each.is_left_out())
        .flat_map(Seen::ranges)
        .collect();
    for seen in all {
        let place = seen.place();
        if known.contains(&place) {
            continue;
        }
        match Object::held(seen) {
            // SAFETY: it is held for as long as this runs, and the loader is done with it.
            Some(object) => is_all &= unsafe { object.exchange(replace, &system) },
            None => {
                is_all = false;
                continue;
            }
        }
        known.insert(place);
    }
    // Last: who finds these numbers finds the tables exchanged. Where one object could not be held there is always more to do.
    if is_all {
        UNLOADED.store(told.unloaded, Ordering::Release);
        LOADED.store(told.loaded, Ordering::Release);
    }
    !is_first || !is_all
}

/// The places, while this thread has taken them.
struct Taken;

impl Taken {
    fn new(is_patient: bool) -> Option<Self> {
        while KNOWN.is_taken.swap(true, Ordering::Acquire) {
            if !is_patient {
                return None;
            }
            thread::sleep(LOOK);
        }
        Some(Self)
    }

    fn places(&mut self) -> &mut Places {
        // SAFETY: there is one `Taken` at a time.
        unsafe { &mut *KNOWN.places.get() }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        KNOWN.is_taken.store(false, Ordering::Release);
    }
}

/// In a forked child: the thread that had taken the places is none of it.
pub(super) fn after_fork() {
    if KNOWN.is_taken.load(Ordering::Relaxed) {
        // They may be half changed, and are not to be touched.
        // SAFETY: this is the only thread, and it is not in `attend`.
        unsafe { KNOWN.places.get().write(Some(HashSet::new())) };
        LOADED.store(0, Ordering::Relaxed);
        KNOWN.is_taken.store(false, Ordering::Relaxed);
    }
}

fn told(mut told: Told) -> Told {
    // SAFETY: the function is called with what it expects, and returns before this does.
    unsafe { libc::dl_iterate_phdr(Some(tell), ptr::from_mut(&mut told).cast()) };
    told
}

/// # Safety
/// Called by `dl_iterate_phdr` with an object and a [`Told`].
unsafe extern "C" fn tell(info: *mut dl_phdr_info, _: size_t, told: *mut c_void) -> c_int {
    // SAFETY: the loader's and the caller's promise.
    let (info, told) = unsafe { (&*info, &mut *told.cast::<Told>()) };
    (told.loaded, told.unloaded) = (info.dlpi_adds, info.dlpi_subs);
    let Some(seen) = &mut told.seen else {
        return 1;
    };
    if info.dlpi_phnum > 0 {
        // SAFETY: the loader's promise; the program has an empty name.
        let (headers, name) = unsafe {
            (
                slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)),
                CStr::from_ptr(info.dlpi_name),
            )
        };
        seen.push(Seen {
            base: info.dlpi_addr as usize,
            name: name.to_owned(),
            headers: headers.to_vec(),
        });
    }
    0
}
