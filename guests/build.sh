#!/bin/sh
# Builds every guest for x86_64 and aarch64 and writes MANIFEST.toml.
#
#   build.sh            build all into guests/bin, write guests/MANIFEST.toml
#   build.sh --check    build all into a temporary directory, compare the
#                       hashes with guests/MANIFEST.toml, change nothing
#   build.sh NAME...    build only these, to try one (the manifest is left as
#                       it is, so run the script without names afterwards)
#
# Needs an amd64 Debian 12 (bookworm) with these packages:
#
#   gcc g++                                      gcc-12 for x86_64
#   gcc-aarch64-linux-gnu g++-aarch64-linux-gnu  gcc-12 for aarch64
#   binutils binutils-aarch64-linux-gnu
#   libc6-dev libc6-dev-arm64-cross              the two glibc
#
# and "apt-get download" access to the Debian archive for
#
#   musl-dev:amd64 musl-dev:arm64                the two musl
#   rustc:amd64 libstd-rust-1.63:amd64 libstd-rust-dev:amd64
#   libstd-rust-dev:arm64 libllvm14:amd64        rustc 1.63, one compiler for
#                                                both architectures
#
# Those are unpacked in a temporary directory: nothing is installed, no foreign
# architecture is added to dpkg. Set GUESTS_DEBS to a directory of .deb files
# to use these instead of downloading; what is downloaded is kept there.
#
# The result depends only on the sources and the package versions (which the
# manifest names): no path, time or user name gets into a binary.
set -eu

export LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH=1700000000
umask 022

here=$(cd "$(dirname "$0")" && pwd)
src=$here/programs
archs="x86_64 aarch64"

mode=build
case ${1-} in
--check) mode=check; shift ;;
-*) sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
only=$*

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

case $mode in
build) out=$here/bin manifest=$here/MANIFEST.toml ;;
check) out=$tmp/bin manifest=$tmp/MANIFEST.toml ;;
esac
debs=${GUESTS_DEBS:-$tmp/debs}

# ---- the guests -----------------------------------------------------------
#
# NAME | KIND | SOURCE (below programs/) | extra FLAGS
#
# KIND is a recipe: "none" (no libc), "musl", "musl-pie" (static-pie), "glibc",
# "glibc-pie", "cpp" (C++ on glibc), "rust" (Rust on glibc), "kept-musl" and
# "kept-glibc" (not built here: programs/lab/README.md says how it was; FLAGS is
# the SFrame version). In FLAGS, @fp and @nofp stand for the flags that keep
# frame pointers and leave them out, @line for line information, @sframe for an
# .sframe (of version 1, by these binutils), @protected for protected return
# addresses: pac-ret and BTI, or CET, and @lab for what the programs below lab/
# were made for: tail calls, and no remarks on their style.
guests() {
	sed -e 's/#.*//' -e '/^[[:space:]]*$/d' <<'EOF'
hello               | none      | asm/ARCH/hello.S       | -g
nested-fp           | none      | asm/ARCH/nested-fp.S   | -g
nested-nofp         | none      | asm/ARCH/nested-nofp.S | -g
leaf                | none      | asm/ARCH/leaf.S        | -g
demo                | musl      | c/demo.c               | @fp @line
fault               | musl      | c/fault.c              | @fp @line
recursion           | musl      | c/recursion.c          | @fp @line
recursion-nofp      | musl      | c/recursion.c          | @nofp @line
recursion-pie       | musl-pie  | c/recursion.c          | @fp @line
syscalls            | musl      | c/syscalls.c           | @fp @line
bench               | musl      | c/bench.c              | @fp @line
hello-musl          | musl      | c/hello.c              | @fp @line
qsort               | musl      | c/qsort.c              | @fp @line
qsort-nofp          | musl      | c/qsort.c              | @nofp @line
segv                | musl      | c/segv.c               | @fp @line
signals             | musl      | c/signals.c            | @fp @line
memory              | musl      | c/memory.c             | @fp @line
files               | musl      | c/files.c              | @fp @line
reader              | musl      | c/reader.c             | @fp @line
tasks               | musl      | c/tasks.c              | @fp @line
crowd               | musl      | c/crowd.c              | @fp @line
time                | musl      | c/time.c               | @fp @line
touch256            | musl      | c/touch256.c           | @fp @line
hello-glibc         | glibc     | c/hello.c              | @fp @line
recursion-glibc     | glibc     | c/recursion.c          | @fp @line
recursion-glibc-pie | glibc-pie | c/recursion.c          | @nofp @line
qsort-glibc         | glibc     | c/qsort.c              | @nofp @line
syscalls-glibc      | glibc     | c/syscalls.c           | @fp @line
time-glibc          | glibc     | c/time.c               | @fp @line
perf-self           | glibc     | c/perf-self.c          | @fp @line
cpp-throw           | cpp       | cpp/cpp-throw.cc       | @fp @line
rust-hello          | rust      | rust/rust-hello.rs     | -C force-frame-pointers=yes -C strip=debuginfo
golden-fp           | none      | golden/guest.c         | -O1 -g1 @fp -DFORCE_FRAMES
golden-leaf         | none      | golden/guest.c         | -O1 -g1 -fno-omit-frame-pointer
golden-nofp         | none      | golden/guest.c         | -O1 -g1 @nofp
zoo-prologue             | none | asm/ARCH/zoo-prologue.S             | -g @sframe
zoo-epilogue-shapes      | none | asm/ARCH/zoo-epilogue-shapes.S      | -g @sframe
zoo-body-only-cfi        | none | asm/ARCH/zoo-body-only-cfi.S        | -g @sframe
zoo-no-cfi               | none | asm/ARCH/zoo-no-cfi.S               | -g @sframe
zoo-plt-expression       | none | asm/ARCH/zoo-plt-expression.S       | -g @sframe
zoo-endless-expression   | none | asm/ARCH/zoo-endless-expression.S   | -g @sframe
zoo-noreturn-last        | none | asm/ARCH/zoo-noreturn-last.S        | -g @sframe
zoo-sigframe-first-insn  | none | asm/ARCH/zoo-sigframe-first-insn.S  | -g @sframe
zoo-syscall-leaf         | none | asm/ARCH/zoo-syscall-leaf.S         | -g @sframe
zoo-lr-loop              | none | asm/ARCH/zoo-lr-loop.S              | -g @sframe
zoo-tail-call            | none | asm/ARCH/zoo-tail-call.S            | -g @sframe
zoo-longjmp              | none | asm/ARCH/zoo-longjmp.S              | -g @sframe
zoo-coroutine            | none | asm/ARCH/zoo-coroutine.S            | -g @sframe
zoo-signal-in-switch     | none | asm/ARCH/zoo-signal-in-switch.S     | -g @sframe
zoo-calls-by-hand        | none | asm/ARCH/zoo-calls-by-hand.S        | -g @sframe
zoo-entry-point          | none | asm/ARCH/zoo-entry-point.S          | -g @sframe
zoo-clobbered-fp         | none | asm/ARCH/zoo-clobbered-fp.S         | -g @sframe
zoo-fp-as-data           | none | asm/ARCH/zoo-fp-as-data.S           | -g @sframe
zoo-faked-call           | none | asm/ARCH/zoo-faked-call.S           | -g @sframe
zoo-fp-without-cfi       | none | asm/ARCH/zoo-fp-without-cfi.S       | -g @sframe
zoo-small-functions      | musl | c/zoo-small-functions.c             | -foptimize-sibling-calls @nofp @line @sframe
zoo-outlined-prologue    | none | asm/ARCH/zoo-outlined-prologue.S    | -g @sframe
zoo-two-exits            | none | asm/ARCH/zoo-two-exits.S            | -g @sframe
zoo-eh-frame-hdr         | none | asm/ARCH/zoo-eh-frame-hdr.S         | -g -Wl,-T,asm/zoo-hdr.ld
zoo-sframe-empty         | none | asm/ARCH/zoo-sframe.S               | -g -DSFRAME=0 -Wl,-T,asm/zoo-sframe.ld
zoo-sframe-truncated     | none | asm/ARCH/zoo-sframe.S               | -g -DSFRAME=1 -Wl,-T,asm/zoo-sframe.ld
zoo-sframe-v2            | none | asm/ARCH/zoo-sframe.S               | -g -DSFRAME=2 -Wl,-T,asm/zoo-sframe.ld
zoo-sframe-v3            | none | asm/ARCH/zoo-sframe.S               | -g -DSFRAME=3 -Wl,-T,asm/zoo-sframe.ld
zoo-sframe-wide          | none | asm/ARCH/zoo-sframe-wide.S          | -g @sframe
zoo-cfa-opcodes          | none | asm/ARCH/zoo-cfa-opcodes.S          | -g @sframe
lab-recursion-fp         | musl | lab/recursion.c                     | @lab @fp @sframe
lab-alloca-fp            | musl | lab/alloca.c                        | @lab @fp @sframe
lab-signals-fp           | musl | lab/signals.c                       | @lab @fp @sframe
lab-tailcall-fp          | musl | lab/tailcall.c                      | @lab @fp @sframe
lab-recursion-protected  | musl | lab/recursion.c                     | @lab @nofp @protected @sframe
lab-alloca-protected     | musl | lab/alloca.c                        | @lab @nofp @protected @sframe
lab-signals-protected    | musl | lab/signals.c                       | @lab @nofp @protected @sframe
lab-tailcall-protected   | musl | lab/tailcall.c                      | @lab @nofp @protected @sframe
lab-recursion-v1         | glibc | lab/recursion.c                    | @lab @nofp @sframe
lab-recursion-v2         | kept-musl  | lab/recursion.c               | v2
lab-alloca-v2            | kept-musl  | lab/alloca.c                  | v2
lab-signals-v2           | kept-musl  | lab/signals.c                 | v2
lab-tailcall-v2          | kept-musl  | lab/tailcall.c                | v2
lab-recursion-v3         | kept-musl  | lab/recursion.c               | v3
lab-alloca-v3            | kept-musl  | lab/alloca.c                  | v3
lab-signals-v3           | kept-musl  | lab/signals.c                 | v3
lab-tailcall-v3          | kept-musl  | lab/tailcall.c                | v3
lab-exc-v3               | kept-glibc | lab/exc.cc                    | v3
EOF
}

fp="-fno-omit-frame-pointer -mno-omit-leaf-frame-pointer"
nofp="-fomit-frame-pointer"
line="-g1"
sframe="-Wa,--gsframe"
lab="-g1 -foptimize-sibling-calls -w"

# ---- tools ----------------------------------------------------------------

die() {
	echo "build.sh: $*" >&2
	exit 1
}

compiler() { # ARCH gcc|g++
	case $1 in
	x86_64) echo "x86_64-linux-gnu-$2-12" ;;
	aarch64) echo "aarch64-linux-gnu-$2-12" ;;
	esac
}

deb_arch() {
	case $1 in
	x86_64) echo amd64 ;;
	aarch64) echo arm64 ;;
	esac
}

# Baseline instruction sets only, and small pages in the file layout.
arch_flags() {
	case $1 in
	x86_64) echo "-march=x86-64 -mtune=generic -fcf-protection=none" ;;
	aarch64) echo "-march=armv8-a -mno-outline-atomics -Wl,-z,max-page-size=4096" ;;
	esac
}

protection() { # ARCH -> the flags of @protected
	case $1 in
	x86_64) echo "-fcf-protection=full" ;;
	aarch64) echo "-mbranch-protection=standard" ;;
	esac
}

common="-std=gnu11 -O2 -Wall -Wextra -fno-stack-protector -fno-optimize-sibling-calls"
common="$common -fasynchronous-unwind-tables -Wl,--build-id=sha1"

for arch in $archs; do
	for tool in gcc g++; do
		command -v "$(compiler $arch $tool)" >/dev/null ||
			die "$(compiler $arch $tool) not found: install the packages named at the top of $0"
	done
done

# apt with a state of its own, that knows both architectures
apt() {
	apt-get -qq -o Dir::State::Lists="$tmp/apt/lists" -o Dir::Cache="$tmp/apt/cache" \
		-o APT::Architectures::=amd64 -o APT::Architectures::=arm64 \
		-o APT::Sandbox::User="$(id -un)" "$@"
}

# fetch PACKAGE:ARCH... : make their .deb files present in $debs
fetch() {
	mkdir -p "$debs"
	for p in "$@"; do
		[ -n "$(deb "$p")" ] && continue
		if [ ! -d "$tmp/apt" ]; then
			mkdir -p "$tmp/apt/lists/partial" "$tmp/apt/cache/archives/partial"
			apt update
		fi
		(cd "$debs" && apt download "$p")
		[ -n "$(deb "$p")" ] || die "cannot download $p"
	done
}

deb() { # PACKAGE:ARCH -> file name
	for f in "$debs/${1%:*}"_*_"${1#*:}".deb; do
		[ ! -e "$f" ] || echo "$f"
	done | tail -n 1
}

unpack() { # PACKAGE:ARCH DIR
	mkdir -p "$2"
	dpkg-deb -x "$(deb "$1")" "$2"
}

wanted() { # NAME
	[ -z "$only" ] && return 0
	case " $only " in *" $1 "*) return 0 ;; esac
	return 1
}

[ $mode = build ] || [ -z "$only" ] || die "--check takes no names"
for name in $only; do
	guests | grep -q "^$name " || die "there is no guest $name in the table of $0"
done

need_musl=no need_rust=no
for name in $(guests | sed 's/ *|.*//'); do
	wanted "$name" || continue
	case $(guests | grep "^$name " | cut -d'|' -f2 | tr -d ' ') in
	musl*) need_musl=yes ;;
	rust) need_rust=yes ;;
	esac
done

if [ $need_musl = yes ]; then
	fetch musl-dev:amd64 musl-dev:arm64
	unpack musl-dev:amd64 "$tmp/musl-x86_64"
	unpack musl-dev:arm64 "$tmp/musl-aarch64"
fi
if [ $need_rust = yes ]; then
	rust_debs="rustc:amd64 libstd-rust-1.63:amd64 libllvm14:amd64 libstd-rust-dev:amd64 libstd-rust-dev:arm64"
	fetch $rust_debs
	for p in $rust_debs; do
		unpack "$p" "$tmp/rust"
	done
fi

# ---- recipes: compile NAME for ARCH ---------------------------------------
#
# All run in programs/, so that sources have relative names, and map that
# directory to "guests/programs", where a reader of the repository finds them.

run() {
	# what the manifest shows: without this machine's directories
	step=$(echo "$*" | sed -e "s, -ffile-prefix-map=$tmp/[^ ]*,,g" \
		-e "s,$tmp/musl-$arch,MUSL,g" -e "s,$tmp/rust,RUST,g" -e "s,$tmp/,,g" \
		-e "s,$(gcc_dir),GCC,g" -e "s,$out/$arch,bin/$arch,g" \
		-e "s,$src=,\$PWD=,g" -e 's,  *, ,g')
	command="${command:+$command && }$step"
	(cd "$src" && "$@") || die "failed: $step"
}

gcc_dir() {
	dirname "$($(compiler $arch gcc) -print-libgcc-file-name)"
}

maps="-ffile-prefix-map=$src=guests/programs -ffile-prefix-map=$tmp/musl-x86_64=musl
	-ffile-prefix-map=$tmp/musl-aarch64=musl"

build_none() { # ARCH NAME SOURCE FLAGS
	# by way of a file of a known name: for assembly, it gets into the symbols.
	# A linker script goes to the second step; that ld remarks on an .sframe
	# written by hand means only that it leaves it as it is.
	script=
	for w in $4; do
		case $w in -Wl,-T,*) script=$w ;; esac
	done
	run $(compiler $1 gcc) $(arch_flags $1) $common $maps $4 -ffreestanding -fno-pie \
		-c -o "$tmp/$2.o" "$3"
	run $(compiler $1 gcc) $(arch_flags $1) -static -nostdlib -no-pie -Wl,--build-id=sha1 $script \
		-o "$out/$1/$2" "$tmp/$2.o"
}

build_musl() { # ARCH NAME SOURCE FLAGS [pie]
	inc=$tmp/musl-$1/usr/include/$1-linux-musl
	lib=$tmp/musl-$1/usr/lib/$1-linux-musl
	gcc=$(gcc_dir)
	case ${5-} in
	pie) link="-fPIE -static-pie" crt=rcrt1.o begin=crtbeginS.o end=crtendS.o ;;
	*) link="-fno-pie -no-pie -static" crt=crt1.o begin=crtbeginT.o end=crtend.o ;;
	esac
	run $(compiler $1 gcc) $(arch_flags $1) $common $maps $4 $link \
		-nostdinc -isystem "$inc" -isystem "$gcc/include" -nostdlib -L"$lib" \
		-o "$out/$1/$2" "$lib/$crt" "$lib/crti.o" "$gcc/$begin" "$3" \
		-Wl,--start-group -lc -lgcc -Wl,--end-group "$gcc/$end" "$lib/crtn.o"
}

build_glibc() { # ARCH NAME SOURCE FLAGS [pie]
	case ${5-} in
	pie) link="-fPIE -static-pie" ;;
	*) link="-fno-pie -no-pie -static" ;;
	esac
	run $(compiler $1 gcc) $(arch_flags $1) $common $maps $4 $link -o "$out/$1/$2" "$3"
}

build_cpp() { # ARCH NAME SOURCE FLAGS
	run $(compiler $1 g++) $(arch_flags $1) $(echo "$common" | sed s/gnu11/gnu++17/) $maps $4 \
		-fno-pie -no-pie -static -o "$out/$1/$2" "$3"
}

# Not built: the file in the repository, as it is.
build_kept() { # ARCH NAME
	[ $mode = build ] || cp "$here/bin/$1/$2" "$out/$1/$2"
	command="see programs/lab/README.md"
}

build_rust() { # ARCH NAME SOURCE FLAGS
	run env LD_LIBRARY_PATH="$tmp/rust/usr/lib/x86_64-linux-gnu" "$tmp/rust/usr/bin/rustc" \
		--edition 2021 --target "$1-unknown-linux-gnu" -C target-feature=+crt-static \
		-C relocation-model=static -C opt-level=2 -C linker="$(compiler $1 gcc)" \
		-C link-arg=-Wl,--build-id=sha1 \
		--remap-path-prefix "$src=guests/programs" $4 -o "$out/$1/$2" "$3"
}

# ---- the manifest ---------------------------------------------------------

installed() { # PACKAGE -> its version
	dpkg-query -W -f '${Version}' "$1" 2>/dev/null || die "package $1 is not installed"
}

tool() { # NAME PACKAGE VERSION SOURCE
	printf '\n[[tool]]\nname = "%s"\npackage = "%s"\nversion = "%s"\nsource = "%s"\n' "$1" "$2" "$3" "$4"
}

source_of() { # installed PACKAGE -> the Debian source it was built from
	built=$(dpkg-query -W -f '${Built-Using}' "$1" | tr ',' '\n' | sed -n "s/^ *$2 (= \(.*\))/$2 \1/p")
	[ -n "$built" ] || built=$(dpkg-query -W -f '${source:Package} ${source:Version}' "$1")
	echo "$built"
}

source_of_deb() { # PACKAGE:ARCH
	f=$(deb "$1")
	s=$(dpkg-deb -f "$f" Source)
	s=${s:-${1%:*}}
	case $s in
	*\(*) echo "$s" | sed 's/[()]//g' ;;
	*) echo "$s $(dpkg-deb -f "$f" Version)" ;;
	esac
}

library() { # ID NAME PACKAGE VERSION SOURCE LICENCE
	printf '\n[[library]]\nid = "%s"\nname = "%s"\npackage = "%s"\nversion = "%s"\nsource = "%s"\nlicence = "%s"\n' \
		"$1" "$2" "$3" "$4" "$5" "$6"
}

manifest_head() {
	cat <<'EOF'
# Written by build.sh from its table of guests; not to be edited by hand.
#
# [[tool]]     what compiled: program, Debian package, version, source package
# [[library]]  what is linked in: Debian package with version, the source
#              package it was built from, licence
# [[binary]]   a file: bin/ARCH/NAME with its SHA-256 and size, the sources
#              below programs/, the command (run in programs/; MUSL, GCC and
#              RUST stand for where those packages are unpacked), the names of
#              its tools and libraries
EOF
	for arch in $archs; do
		case $arch in
		x86_64) p=gcc-12 pp=g++-12 b=binutils ;;
		aarch64) p=gcc-12-aarch64-linux-gnu pp=g++-12-aarch64-linux-gnu b=binutils-aarch64-linux-gnu ;;
		esac
		tool gcc-$arch $p "$(installed $p)" "$(source_of $p gcc-12)"
		tool g++-$arch $pp "$(installed $pp)" "$(source_of $pp gcc-12)"
		tool binutils-$arch $b "$(installed $b)" "$(source_of $b binutils)"
	done
	[ $need_rust = no ] ||
		tool rustc rustc "$(dpkg-deb -f "$(deb rustc:amd64)" Version)" "$(source_of_deb rustc:amd64)"
	manifest_lab_tools
	for arch in $archs; do
		case $arch in
		x86_64) c=libc6-dev g=libgcc-12-dev s=libstdc++-12-dev ;;
		aarch64) c=libc6-dev-arm64-cross g=libgcc-12-dev-arm64-cross s=libstdc++-12-dev-arm64-cross ;;
		esac
		d=$(deb_arch $arch)
		[ $need_musl = no ] ||
			library musl-$arch musl musl-dev:$d "$(dpkg-deb -f "$(deb musl-dev:$d)" Version)" \
				"$(source_of_deb musl-dev:$d)" "MIT"
		library glibc-$arch glibc $c "$(installed $c)" "$(source_of $c glibc)" "LGPL-2.1-or-later"
		library libgcc-$arch libgcc $g "$(installed $g)" "$(source_of $g gcc-12)" \
			"GPL-3.0-or-later WITH GCC-exception-3.1"
		library libstdc++-$arch libstdc++ $s "$(installed $s)" "$(source_of $s gcc-12)" \
			"GPL-3.0-or-later WITH GCC-exception-3.1"
		[ $need_rust = no ] ||
			library rust-std-$arch "Rust standard library" libstd-rust-dev:$d \
				"$(dpkg-deb -f "$(deb libstd-rust-dev:$d)" Version)" \
				"$(source_of_deb libstd-rust-dev:$d)" "MIT OR Apache-2.0"
	done
	manifest_lab_libraries
}

# What the kept programs were made with: Debian's unstable distribution.
manifest_lab_tools() {
	for arch in $archs; do
		case $arch in
		x86_64) p=gcc-16 pp=g++-16 v=16.2.0-4 ;;
		aarch64) p=gcc-16-aarch64-linux-gnu pp=g++-16-aarch64-linux-gnu v=16.2.0-3 ;;
		esac
		tool lab-gcc-$arch $p $v "gcc-16 $v"
		tool lab-g++-$arch $pp $v "gcc-16 $v"
	done
	tool lab-binutils-v2 binutils 2.44-3 "binutils 2.44-3"
	tool lab-binutils-v3 binutils 2.47.50 "binutils 2.47.50"
}

manifest_lab_libraries() {
	for arch in $archs; do
		case $arch in
		x86_64) v=16.2.0-4 ;;
		aarch64) v=16.2.0-3 ;;
		esac
		library lab-musl-$arch musl musl 1.2.6 "musl 1.2.6" "MIT"
		library lab-glibc-$arch glibc libc6-dev "of unstable with gcc $v" "glibc" "LGPL-2.1-or-later"
		library lab-libgcc-$arch libgcc libgcc-16-dev $v "gcc-16 $v" \
			"GPL-3.0-or-later WITH GCC-exception-3.1"
		library lab-libstdc++-$arch libstdc++ libstdc++-16-dev $v "gcc-16 $v" \
			"GPL-3.0-or-later WITH GCC-exception-3.1"
	done
}

quoted() { # WORD... -> "a", "b"
	for w in "$@"; do
		printf '"%s"\n' "$w"
	done | paste -s -d, | sed 's/,/, /g'
}

manifest_entry() { # ARCH NAME KIND SOURCE FLAGS
	tools="gcc-$1 binutils-$1"
	case $3 in
	none) libs= ;;
	musl*) libs="musl-$1 libgcc-$1" ;;
	glibc*) libs="glibc-$1 libgcc-$1" ;;
	cpp) libs="libstdc++-$1 glibc-$1 libgcc-$1" tools="g++-$1 binutils-$1" ;;
	rust) libs="rust-std-$1 glibc-$1 libgcc-$1" tools="rustc gcc-$1 binutils-$1" ;;
	kept-musl) libs="lab-musl-$1 lab-libgcc-$1" tools="lab-gcc-$1 lab-binutils-$(echo $5)" ;;
	kept-glibc)
		libs="lab-libstdc++-$1 lab-glibc-$1 lab-libgcc-$1"
		tools="lab-g++-$1 lab-binutils-$(echo $5)"
		;;
	esac
	cat <<EOF

[[binary]]
name = "$2"
arch = "$1"
sha256 = "$(sha256sum "$out/$1/$2" | cut -d' ' -f1)"
size = $(wc -c <"$out/$1/$2")
sources = ["programs/$4"]
command = "$command"
tools = [$(quoted $tools)]
libraries = [$(quoted $libs)]
EOF
}

# ---- main -----------------------------------------------------------------

manifest_head >"$tmp/new-manifest"
for arch in $archs; do
	mkdir -p "$out/$arch"
done
guests >"$tmp/guests"
while IFS='|' read -r name kind source flags; do
	name=$(echo $name) kind=$(echo $kind) source=$(echo $source)
	wanted "$name" || continue
	flags=$(echo " $flags " | sed -e "s/ @fp / $fp /" -e "s/ @nofp / $nofp /" -e "s/ @line / $line /" \
		-e "s/ @sframe / $sframe /" -e "s/ @lab / $lab /")
	for arch in $archs; do
		file=$(echo "$source" | sed "s/ARCH/$arch/")
		echo "$arch/$name"
		command=
		case $kind in
		kept*) ;;
		*) rm -f "$out/$arch/$name" ;;
		esac
		own=$(echo "$flags" | sed "s/ @protected / $(protection $arch) /")
		case $kind in
		kept*) build_kept $arch "$name" ;;
		musl-pie) build_musl $arch "$name" "$file" "$own" pie ;;
		glibc-pie) build_glibc $arch "$name" "$file" "$own" pie ;;
		*) build_$kind $arch "$name" "$file" "$own" ;;
		esac
		chmod 755 "$out/$arch/$name"
		manifest_entry $arch "$name" $kind "$file" "$flags" >>"$tmp/new-manifest"
	done
done <"$tmp/guests"

if [ $mode = check ]; then
	if cmp -s "$tmp/new-manifest" "$here/MANIFEST.toml"; then
		echo "build.sh: every guest is as the manifest says"
		exit 0
	fi
	diff "$here/MANIFEST.toml" "$tmp/new-manifest" || true
	die "the rebuilt guests differ from MANIFEST.toml (< recorded, > rebuilt); with other package versions that is expected"
fi
[ -n "$only" ] || mv "$tmp/new-manifest" "$manifest"
