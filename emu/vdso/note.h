/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The "Linux" note with the kernel's version, by which old C libraries decide
 * whether the kernel is too old for them; and the mark that no executable stack
 * is wanted.
 */
	.section .note.Linux, "a", %note
	.balign	4
	.long	2f - 1f, 4f - 3f, 0
1:	.asciz	"Linux"
2:	.balign	4
3:	.long	6 << 16 | 18 << 8		/* LINUX_VERSION_CODE of 6.18 */
4:	.balign	4
	.section .note.GNU-stack, "", %progbits
