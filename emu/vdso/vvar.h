/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The vvar page: what the vDSO reads. It is mapped read-only, one page below the
 * vDSO image. This file describes it for C; emu/src/loader/vvar.rs writes it and
 * must say the same.
 *
 * The modelled CPU counter (x86_64: TSC, aarch64: CNTVCT) counts nanoseconds since
 * boot, so there is nothing to scale: CLOCK_MONOTONIC is the counter.
 */
#ifndef EMU_VVAR_H
#define EMU_VVAR_H

typedef unsigned int u32;
typedef unsigned long u64;

struct vvar {
	u32 seq;		/*  0: odd while the kernel writes (sequence lock) */
	u32 unused;		/*  4: 0 */
	u64 wall_offset_ns;	/*  8: CLOCK_REALTIME = counter + wall_offset_ns */
	u64 multiplier;		/* 16: reserved, 1: nanoseconds per count */
	u32 cpu;		/* 24: CPU that runs the reader, written when it changes */
	u32 node;		/* 28: its node */
};

/* The linker script puts it there. */
extern const struct vvar vvar_page __attribute__((visibility("hidden")));

#endif
