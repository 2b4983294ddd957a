#!/bin/sh
# Builds the linked programs of the ELF corpus: no C library, a few hundred bytes of code.
# Debian packages: gcc, gcc-aarch64-linux-gnu, binutils. The results are checked in; the
# other files of the corpus are made by the tests of emu's loader (EMU_BLESS=1).
set -eu
cd "$(dirname "$0")/elf"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
source=$folder/program.c
cat > "$source" <<'C'
static volatile int zeroed[2048];
static int data = 42;
static volatile _Thread_local int tls = 1;
__attribute__((noinline)) int work(volatile int *p) { return *p + tls; }
void _start(void) { zeroed[7] = work(&data); for (;;) ; }
C
for arch in x86_64 aarch64; do
	flags="-O1 -ffreestanding -nostdlib -fasynchronous-unwind-tables -ftls-model=local-exec \
		-Wl,--build-id=sha1 -Wl,-z,noseparate-code,-z,max-page-size=4096 -Wl,--eh-frame-hdr"
	# shellcheck disable=SC2086
	$arch-linux-gnu-gcc $flags -static -o linked-$arch "$source"
	# shellcheck disable=SC2086
	$arch-linux-gnu-gcc $flags -fpie -static-pie -s -o linked-pie-$arch "$source"
done
