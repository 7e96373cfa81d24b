//! A real kernel in QEMU in virtual time: kernel, modules, initramfs, QEMU, the identity of a lab.
