//! How the objects in memory (the program, libraries, modules) call each other's functions: through tables of addresses that the
//! loader filled in, and that may be exchanged. The formats are those of the System V ABI, as `dl_iterate_phdr` shows them.

use libc::{c_char, c_void};
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{ptr, slice};

/// Whose calls they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    Python,
    Other,
}

/// The address that is put in the place of a function's, if any is. It takes what the function takes.
pub(super) type Replace = fn(Caller, &CStr) -> Option<usize>;

/// An object as the loader tells of it, perhaps while another thread loads it.
pub(super) struct Seen {
    pub(super) base: usize,
    pub(super) name: CString,
    pub(super) headers: Vec<libc::Elf64_Phdr>,
}

impl Seen {
    fn file(&self) -> &[u8] {
        let path = self.name.to_bytes();
        path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    pub(super) fn is_left_out(&self) -> bool {
        LEFT_OUT.iter().any(|known| self.file().starts_with(known))
    }

    /// Where its tables are told of: no two objects have the same.
    pub(super) fn place(&self) -> usize {
        self.base
            .wrapping_add(dynamic_of(&self.headers).unwrap_or_default())
    }

    /// Where it lies.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let loaded = self.headers.iter().filter(|each| each.p_type == libc::PT_LOAD);
        loaded.map(|each| {
            let begin = self.base.wrapping_add(each.p_vaddr as usize);
            begin..begin + each.p_memsz as usize
        })
    }
}

fn dynamic_of(headers: &[libc::Elf64_Phdr]) -> Option<usize> {
    let header = headers.iter().find(|each| each.p_type == libc::PT_DYNAMIC)?;
    Some(header.p_vaddr as usize)
}

/// One entry of the tables below: which symbol, and where its address is kept.
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    kind: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

#[repr(C)]
struct Dynamic {
    tag: u64,
    value: u64,
}

/// Kinds of entries that hold a function's address: `GLOB_DAT` and `JUMP_SLOT` of the ELF supplements, and `64` or `ABS64`, by
/// which data does.
#[cfg(target_arch = "x86_64")]
const KINDS: [u64; 3] = [6, 7, 1];
#[cfg(target_arch = "aarch64")]
const KINDS: [u64; 3] = [1025, 1026, 257];

/// Tags of the dynamic section (System V ABI, "Dynamic Section").
const PLT_SIZE: u64 = 2;
const TEXTS: u64 = 5;
const SYMBOLS: u64 = 6;
const TABLE: u64 = 7;
const TABLE_SIZE: u64 = 8;
const PLT: u64 = 23;

/// A program or library in memory, which stays there until this is dropped.
pub(super) struct Object {
    /// As `dlopen` gives it; null where nothing unloads it.
    handle: *mut c_void,
    base: usize,
    headers: Vec<libc::Elf64_Phdr>,
    caller: Caller,
    is_left_out: bool,
}

/// The first fields of what a handle is (`link.h`).
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: usize,
}

/// Objects of the C library, and what the kernel puts there: what they call is their own.
const LEFT_OUT: [&[u8]; 5] = [b"libc.so", b"libpthread", b"ld-linux", b"linux-vdso", b"libdl.so"];

impl Object {
    /// Holds an object that was seen, once whoever loads it is done; None if it is gone, or none that can be asked for.
    pub(super) fn held(seen: Seen) -> Option<Self> {
        let own = Self::held as *const () as usize;
        let is_own = seen.ranges().any(|range| range.contains(&own));
        let is_program = seen.name.is_empty();
        let mut object = Self {
            handle: ptr::null_mut(),
            base: seen.base,
            caller: if is_program || seen.file().starts_with(b"libpython") {
                Caller::Python
            } else {
                Caller::Other
            },
            is_left_out: is_own || seen.is_left_out(),
            headers: seen.headers,
        };
        if object.is_left_out || is_program {
            return Some(object);
        }
        let mut map = ptr::null_mut::<LinkMap>();
        // SAFETY: the name is a C string. Nothing is loaded; who loads it holds the loader's lock until its tables are filled in.
        unsafe {
            object.handle = libc::dlopen(seen.name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if object.handle.is_null()
                || libc::dlinfo(
                    object.handle,
                    libc::RTLD_DI_LINKMAP,
                    ptr::from_mut(&mut map).cast(),
                ) != 0
                || (*map).base != object.base
                || dynamic_of(&object.headers)
                    .is_none_or(|dynamic| (*map).dynamic != object.base.wrapping_add(dynamic))
            {
                return None;
            }
        }
        Some(object)
    }

    /// Whether all that lead to such functions could be exchanged.
    ///
    /// # Safety
    /// The object stays in memory meanwhile.
    pub(super) unsafe fn exchange(&self, replace: Replace, system: &[Range<usize>]) -> bool {
        let mut is_all = true;
        if self.is_left_out {
            return is_all;
        }
        // SAFETY: the caller's promise, and the format's: each table has as many bytes as it says.
        unsafe {
            let (Some(texts), Some(symbols)) = (self.dynamic(TEXTS), self.dynamic(SYMBOLS)) else {
                return is_all;
            };
            for (table, size) in [(TABLE, TABLE_SIZE), (PLT, PLT_SIZE)] {
                let (Some(table), Some(size)) = (self.dynamic(table), self.dynamic(size)) else {
                    continue;
                };
                let count = size / size_of::<Relocation>();
                for entry in slice::from_raw_parts(self.at(table) as *const Relocation, count) {
                    if KINDS.contains(&(entry.info & 0xffff_ffff)) {
                        let symbol = (self.at(symbols) as *const Symbol).add((entry.info >> 32) as usize);
                        if (*symbol).section != 0 || entry.addend != 0 {
                            // Its own function of that name, or no address of a function.
                            continue;
                        }
                        let name =
                            CStr::from_ptr((self.at(texts) + (*symbol).name as usize) as *const c_char);
                        let slot = self.base.wrapping_add(entry.offset as usize);
                        if let Some(own) = replace(self.caller, name)
                            && self.leads_to(slot, name, system)
                        {
                            is_all &= self.put(slot, own);
                        }
                    }
                }
            }
        }
        is_all
    }

    /// Whether a slot leads, or will, to a function of the C library or to who stands before it for all: other libraries may
    /// have functions of the same name that do something else.
    ///
    /// # Safety
    /// The object stays in memory meanwhile, and keeps a function's address in the slot.
    unsafe fn leads_to(&self, slot: usize, name: &CStr, system: &[Range<usize>]) -> bool {
        let is_system = |at: usize| system.iter().any(|range| range.contains(&at));
        // SAFETY: the caller's promise; the name is a C string, and the handle `dlopen`'s or, for the program, none.
        unsafe {
            let at = AtomicUsize::from_ptr(slot as *mut usize).load(Ordering::Acquire);
            let is_bound = !self.headers.iter().any(|each| {
                let begin = self.base.wrapping_add(each.p_vaddr as usize);
                each.p_type == libc::PT_LOAD && (begin..begin + each.p_memsz as usize).contains(&at)
            });
            // One that was not called yet leads to the object itself, which asks the loader.
            let found = if is_bound {
                at
            } else {
                libc::dlsym(self.handle, name.as_ptr()) as usize
            };
            is_system(found) || found == libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize
        }
    }

    /// The value of an entry of the dynamic section.
    ///
    /// # Safety
    /// The object stays in memory meanwhile.
    unsafe fn dynamic(&self, tag: u64) -> Option<usize> {
        let mut entry = self.base.wrapping_add(dynamic_of(&self.headers)?) as *const Dynamic;
        // SAFETY: the section ends with an entry of tag 0.
        unsafe {
            while (*entry).tag != 0 {
                if (*entry).tag == tag {
                    return Some((*entry).value as usize);
                }
                entry = entry.add(1);
            }
        }
        None
    }

    /// Where a table lies: the loader has made most addresses absolute.
    fn at(&self, address: usize) -> usize {
        if address < self.base {
            self.base + address
        } else {
            address
        }
    }

    /// Whether it could be put there.
    ///
    /// # Safety
    /// `slot` is where the object keeps a function's address, and `own` a function of the same type.
    unsafe fn put(&self, slot: usize, own: usize) -> bool {
        let is_data = self.headers.iter().any(|each| {
            let begin = self.base.wrapping_add(each.p_vaddr as usize);
            each.p_type == libc::PT_LOAD
                && each.p_flags & libc::PF_W != 0
                && (begin..begin + each.p_memsz as usize).contains(&slot)
        });
        if !is_data || !slot.is_multiple_of(align_of::<AtomicUsize>()) {
            return false;
        }
        // SAFETY: as for all pages of memory.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let start = (slot & !(page - 1)) as *mut c_void;
        // What the loader has made read-only is to be so again; all else it may write to later. It does so up to the last whole page.
        let is_fixed = self.headers.iter().any(|each| {
            let begin = self.base.wrapping_add(each.p_vaddr as usize);
            let end = (begin + each.p_memsz as usize) & !(page - 1);
            each.p_type == libc::PT_GNU_RELRO && (begin & !(page - 1)..end).contains(&slot)
        });
        // SAFETY: the caller's promise; the page is the object's. A pointer is written whole, and whoever reads it meanwhile
        // calls the one or the other.
        unsafe {
            if is_fixed && libc::mprotect(start, page, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                return false;
            }
            AtomicUsize::from_ptr(slot as *mut usize).store(own, Ordering::Release);
            if is_fixed {
                libc::mprotect(start, page, libc::PROT_READ);
            }
        }
        true
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is `dlopen`'s, and is let go of once.
            unsafe { libc::dlclose(self.handle) };
        }
    }
}
