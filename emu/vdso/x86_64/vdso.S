/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * No signal trampoline here: x86_64 programs bring their own (SA_RESTORER).
 */
#include "../note.h"
