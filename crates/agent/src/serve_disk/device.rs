//! A modelled disk as /dev/nbdN: starts its server and its driver.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use fsdyno_disk::log::{data, region};
use fsdyno_disk::{DiskSpec, Partition, WriteCache, store::Store};
use fsdyno_record::mailbox::Mailbox;
use fsdyno_record::plan::CpuPlan;
use rustix::process::Pid;

use super::server::Server;
use super::shared::Shared;
use crate::memory::Windows;
use crate::{process, processor};

// linux/include/uapi/linux/nbd.h: _IO(0xab, n).
const NBD_SET_SOCK: libc::c_ulong = 0xab00;
const NBD_SET_BLKSIZE: libc::c_ulong = 0xab01;
const NBD_DO_IT: libc::c_ulong = 0xab03;
const NBD_CLEAR_SOCK: libc::c_ulong = 0xab04;
const NBD_SET_SIZE_BLOCKS: libc::c_ulong = 0xab07;
const NBD_SET_FLAGS: libc::c_ulong = 0xab0a;

const FLAG_HAS_FLAGS: u64 = 1 << 0;
const FLAG_SEND_FLUSH: u64 = 1 << 2;
const FLAG_SEND_FUA: u64 = 1 << 3;
const FLAG_SEND_TRIM: u64 = 1 << 5;

/// Socket buffer size of each side. The kernel doubles it for its own overhead. The doubled buffer holds the largest
/// request, 1280 KiB, so that driver and server need not switch to each other in the middle of one.
const SOCKET_BUFFER: usize = 1 << 20;

/// Memory that the kernel keeps free per disk. Writes are sent to the socket even while memory is short, because
/// writing is what frees memory, and the driver then allocates from a reserve that no other allocation may use; if that
/// is empty, the driver gives up and the write fails. A full socket takes half of this.
const RESERVE_KB: u64 = 4096;

const MIN_FREE_KB: &str = "/proc/sys/vm/min_free_kbytes";

/// Size of the part of the disk's bytes that is mapped before the trial: its page tables take 1 MiB of the guest's
/// memory.
const MAPPED_AHEAD: u64 = 512 << 20;

/// Size of the part of the request log that is mapped before the trial: half a million requests.
const LOG_MAPPED_AHEAD: u64 = 16 << 20;

/// Size of the part of the log of bytes that is mapped before the trial.
const DATA_MAPPED_AHEAD: u64 = 64 << 20;

/// The number of a disk of the guest, and its memory regions.
pub struct Regions {
    /// Its number, from 0: nbd0, nbd1, ...
    pub index: u8,
    /// The disk's bytes.
    pub bytes: File,
    /// The log of the requests of all disks, of which this disk has a part.
    pub log: File,
    /// The log of the bytes of all writes, if they are logged.
    pub data: Option<File>,
    /// True if the disk holds a file system that another guest created.
    pub formatted: bool,
}

/// A disk to be served, and the guest's processor.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// The disk.
    pub spec: &'a DiskSpec,
    /// The disk's seed.
    pub seed: u64,
    /// The part of the disk that the guest sees.
    pub partition: Partition,
    /// The guest's processor.
    pub cpu: &'a CpuPlan,
}

/// A served disk.
#[derive(Clone, Debug)]
pub struct BlockDevice {
    /// The kernel's name: `nbd0`.
    pub name: String,
    /// The device node: `/dev/nbd0`.
    pub path: PathBuf,
    /// The server.
    pub server: Pid,
    /// The process inside NBD_DO_IT.
    pub driver: Pid,
}

/// Starts the server and the driver of a disk, and waits until the kernel sees the disk.
///
/// # Errors
/// Errors from fork(2), the store or the driver; a disk that does not appear.
pub fn start(
    regions: Regions,
    served: Served<'_>,
    shared: Shared,
    mailbox: Mailbox<'static>,
) -> io::Result<BlockDevice> {
    let Served { spec, seed, partition, cpu } = served;
    keep_free(u64::from(regions.index) + 1)?;
    let (server_socket, driver_socket) = UnixStream::pair()?;
    for socket in [&server_socket, &driver_socket] {
        rustix::net::sockopt::set_socket_send_buffer_size_force(socket, SOCKET_BUFFER)?;
    }
    let name = format!("nbd{}", regions.index);
    let path = PathBuf::from("/dev").join(&name);
    // The driver comes first: a fork must not happen while the server allocates. The driver must not have the server's
    // end of the socket: otherwise the kernel would not notice that the server has ended.
    let driver = process::fork(|| {
        process::close_all_but(driver_socket.as_fd())?;
        drive(driver_socket.try_clone()?, &path, spec, partition)
    })?;
    drop(driver_socket);
    let mut fds =
        vec![server_socket.as_raw_fd(), regions.bytes.as_raw_fd(), regions.log.as_raw_fd()];
    fds.extend(regions.data.as_ref().map(AsRawFd::as_raw_fd));
    let (spec, cpu) = (spec.clone(), cpu.clone());
    let work = move || {
        let served = Served { spec: &spec, seed, partition, cpu: &cpu };
        serve(server_socket, regions, served, shared, mailbox)
    };
    let server = process::spawn_sharing_memory(&fds, work)?;
    wait_for_size(&name, server, driver)?;
    Ok(BlockDevice { name, path, server, driver })
}

/// Makes the kernel keep the reserve of this number of disks; by default, a guest of 1 GiB keeps enough for one disk.
fn keep_free(disks: u64) -> io::Result<()> {
    let current: u64 = fs::read_to_string(MIN_FREE_KB)?.trim().parse().map_err(io::Error::other)?;
    let required = disks * RESERVE_KB;
    if current < required { fs::write(MIN_FREE_KB, required.to_string()) } else { Ok(()) }
}

fn serve(
    socket: UnixStream,
    regions: Regions,
    served: Served<'_>,
    shared: Shared,
    mailbox: Mailbox<'static>,
) -> io::Result<()> {
    let Served { spec, seed, partition, cpu } = served;
    let disk = fsdyno_disk::build(spec, seed);
    let mut windows = Windows::new(regions.bytes)?;
    windows.map_ahead(0, MAPPED_AHEAD)?;
    let store = match regions.formatted {
        true => Store::open(windows).map_err(io::Error::other)?,
        false => Store::create(windows, spec.capacity).map_err(io::Error::other)?,
    };
    let mut windows = Windows::new(regions.log)?;
    windows.map_ahead(u64::from(regions.index) * region::PART_SIZE, LOG_MAPPED_AHEAD)?;
    let log = region::Writer::create(windows, regions.index);
    let data = regions.data.map(|file| {
        let mut windows = Windows::new(file)?;
        windows.map_ahead(0, DATA_MAPPED_AHEAD)?;
        io::Result::Ok(data::Writer::create(windows, data::SIZE, spec.capacity))
    });
    let mut server = Server::new(socket, disk, store, log, shared, mailbox, partition)
        .with_data(data.transpose()?)
        .with_cpu(cpu.clone());
    process::never_wait_for_memory()?;
    processor::free_of_charge(|| server.run())
}

fn drive(
    socket: UnixStream,
    path: &PathBuf,
    spec: &DiskSpec,
    partition: Partition,
) -> io::Result<()> {
    let device = File::options().read(true).write(true).open(path)?;
    let block_size = u64::from(spec.queue.logical_block_size);
    let mut flags = FLAG_HAS_FLAGS;
    if spec.queue.write_cache == WriteCache::WriteBack {
        flags |= FLAG_SEND_FLUSH;
    }
    if spec.queue.fua {
        flags |= FLAG_SEND_FUA;
    }
    if spec.queue.discard {
        flags |= FLAG_SEND_TRIM;
    }
    let socket = socket.into_raw_fd() as u64;
    for (request, value) in [
        (NBD_SET_BLKSIZE, block_size),
        (NBD_SET_SIZE_BLOCKS, partition.size.0 / block_size),
        (NBD_CLEAR_SOCK, 0),
        (NBD_SET_FLAGS, flags),
        (NBD_SET_SOCK, socket),
        (NBD_DO_IT, 0),
    ] {
        // SAFETY: these requests to an open nbd device take a plain number and touch no memory of this process.
        if unsafe { libc::ioctl(device.as_raw_fd(), request as _, value) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Waits until the size of the disk appears, which happens only once the driver is inside NBD_DO_IT (Linux 6.12 and
/// later).
fn wait_for_size(name: &str, server: Pid, driver: Pid) -> io::Result<()> {
    let size = PathBuf::from("/sys/block").join(name).join("size");
    for _ in 0..5000 {
        if fs::read_to_string(&size).is_ok_and(|text| text.trim() != "0") {
            return Ok(());
        }
        for (role, pid) in [("server", server), ("driver", driver)] {
            if let Some(status) = process::try_wait(pid)? {
                return Err(io::Error::other(format!("the {role} of {name} ended: {status}")));
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, format!("{name} did not appear within 5 s")))
}
