#!/bin/sh
# Records the guests of this directory anew, with the emu of $EMU or target/release/emu:
#
#   tests/recorded/record.sh && target/release/emu test --bless tests/recorded
#
# All host paths are below a fixed directory, and the command is called by its name alone: a
# recording holds the paths of what it read, and its command line.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$here/../..
emu=$(cd "$(dirname "${EMU:-$top/target/release/emu}")" && pwd)
world=/tmp/emu-recorded

rm -rf "$world"
trap 'rm -rf "$world"' EXIT
mkdir -p "$world/bin" "$world/data"
printf 'one\ntwo\nthree\n' >"$world/data/numbers"
ln -s numbers "$world/data/link"
ln -s nowhere "$world/data/lost"

# record NAME ARCH "OPTIONS" GUEST [ARG]...
record() {
	name=$1 arch=$2 options=$3 guest=$4
	shift 4
	cp "$top/guests/bin/$arch/$guest" "$world/bin/$guest"
	# The guest's own status is not a failure.
	(cd "$world" && printf 'first\nsecond' |
		PATH=$emu:$PATH emu record -q -o "$name.emu" $options --root . -- "/bin/$guest" "$@") \
		>/dev/null 2>&1 || true
	mv "$world/$name.emu" "$here/$name.emu"
}

rm -f "$here"/*.emu
record reader-x86_64 x86_64 "-e cycles,page-faults -c 2000" reader \
	/data /data/numbers /data/link /data/lost /data/none
record reader-aarch64 aarch64 "-e instructions:u,raw_syscalls:sys_enter -c 500 --seed 7" reader \
	/data /data/numbers /data/link /data/lost /data/none
record signals-defer-x86_64 x86_64 "--call-graph fp,defer -e instructions:u -c 37" lab-signals-v3
record recursion-defer-aarch64 aarch64 "--call-graph sframe,defer -c 10007" lab-recursion-v3
record fault-aarch64 aarch64 "-e cycles:u -c 41 --aslr 3" fault null
