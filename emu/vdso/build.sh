#!/bin/sh
# Builds the vDSO images, emu/vdso/ARCH/vdso.so, and MANIFEST, which names the tools, the
# sources and the results. With --check: builds elsewhere and compares instead.
# Debian packages: gcc, binutils (on x86_64), gcc-aarch64-linux-gnu.
set -eu
cd "$(dirname "$0")"
export LC_ALL=C SOURCE_DATE_EPOCH=0

# Frame pointers as in the kernel's vDSO (gcc makes none in functions without a stack
# frame); general registers only, as in the kernel.
CFLAGS="-std=gnu11 -O2 -g0 -fPIC -ffreestanding -fno-stack-protector -fno-omit-frame-pointer
	-fasynchronous-unwind-tables -fno-jump-tables -fno-common -fvisibility=default
	-mgeneral-regs-only -fno-ident -Wall -Wextra -Werror"
LDFLAGS="-shared -soname=linux-vdso.so.1 -Bsymbolic --hash-style=both --eh-frame-hdr
	--build-id=sha1 -z max-page-size=4096 -z noexecstack --no-undefined --fatal-warnings"

build() { # ARCH FLAGS OUTPUT
	cc=$1-linux-gnu-gcc work=$(mktemp -d)
	# shellcheck disable=SC2086
	{
		$cc $CFLAGS $2 -c -o "$work/c.o" "$1/vdso.c"
		$cc -c -o "$work/s.o" "$1/vdso.S"
		"$1-linux-gnu-ld" $LDFLAGS -T "$1/vdso.lds" -o "$work/vdso.so" "$work/c.o" "$work/s.o"
		"$1-linux-gnu-objcopy" --strip-all "$work/vdso.so" "$3"
	}
	chmod 644 "$3"
	rm -r "$work"
}

manifest() { # DIRECTORY
	for arch in x86_64 aarch64; do
		echo "$arch $($arch-linux-gnu-gcc --version | head -n 1)"
		echo "$arch $($arch-linux-gnu-ld --version | head -n 1)"
	done
	sha256sum build.sh ./*.h ./*/vdso.[cS] ./*/vdso.lds | sed 's: \./: :'
	(cd "$1" && sha256sum ./*/vdso.so | sed 's: \./: :')
}

out=.
if [ "${1-}" = --check ]; then
	out=$(mktemp -d)
	trap 'rm -rf "$out"' EXIT
	mkdir "$out/x86_64" "$out/aarch64"
fi
build x86_64 "-fcf-protection=none -fno-plt" "$out/x86_64/vdso.so"
build aarch64 "-mbranch-protection=none -mno-outline-atomics -ffixed-x18" "$out/aarch64/vdso.so"
if [ "$out" = . ]; then
	manifest . > MANIFEST
elif ! manifest "$out" | diff MANIFEST -; then
	echo "the images built here differ from the ones checked in (<)" >&2
	exit 1
fi
