//! Requests to valgrind's tool memcheck: which memory it takes for undefined.
//!
//! A request is a sequence of instructions that does nothing on a processor, and that valgrind knows (its manual, "The
//! client request mechanism"; `valgrind.h` and `memcheck.h` have the numbers).
#![allow(unsafe_code, reason = "requests to valgrind are instructions")]

/// What is asked for.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Request {
    RunningOnValgrind = 0x1001,
    CountErrors = 0x1201,
    MakeUndefined = 0x4d43_0001,
    MakeDefined = 0x4d43_0002,
    GetValidity = 0x4d43_0008,
}

/// The answer, or 0 where nobody listens.
#[cfg(target_arch = "x86_64")]
fn request(request: Request, [first, second, third]: [u64; 3]) -> u64 {
    let arguments = [request as u64, first, second, third, 0, 0];
    let answer: u64;
    // SAFETY: the rotations add up to 128 bits and leave rdi as it was, the exchange is one of rbx with itself, and an
    // `asm!` without `preserves_flags` may change the flags. Valgrind reads the array that rax points to, which lives
    // until here, and changes rdx. Of memory it changes what it believes of it and, for `GetValidity`, the bytes at the
    // second argument, which [`is_secret`] lends for that.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0_u64 => answer,
            options(nostack),
        );
    }
    answer
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_: Request, _: [u64; 3]) -> u64 {
    0
}

/// Whether this process runs under valgrind.
pub(crate) fn is_running() -> bool {
    request(Request::RunningOnValgrind, [0; 3]) != 0
}

/// The reports so far.
pub(crate) fn reports() -> u64 {
    request(Request::CountErrors, [0; 3])
}

/// From now on every branch and every address that depends on these bytes is reported.
pub(crate) fn make_secret<T: Copy>(values: &mut [T]) {
    request(Request::MakeUndefined, [values.as_mut_ptr() as u64, size_of_val(values) as u64, 0]);
}

/// From now on nobody minds.
pub(crate) fn make_public<T: Copy>(values: &mut [T]) {
    make_public_at(values.as_mut_ptr().cast(), size_of_val(values));
}

/// The same, as the library wants it.
pub(crate) fn make_public_at(address: *mut u8, bytes: usize) {
    request(Request::MakeDefined, [address as u64, bytes as u64, 0]);
}

/// Whether any bit of this depends on a secret.
pub(crate) fn is_secret<T: Copy>(values: &[T]) -> bool {
    let mut undefined = vec![0_u8; size_of_val(values)];
    let (from, to) = (values.as_ptr() as u64, undefined.as_mut_ptr() as u64);
    request(Request::GetValidity, [from, to, undefined.len() as u64]);
    undefined.iter().any(|bits| *bits != 0)
}

/// A value that counts as secret.
pub(crate) fn secret<T: Copy>(value: T) -> T {
    let mut value = [value];
    make_secret(&mut value);
    value[0]
}
