#!/bin/sh
# Dumps the call-frame sections of the programs in a folder, and what binutils' readelf
# says about them:
#   make.sh FOLDER... > manifest
# Debian packages: binutils, llvm (for llvm-objcopy, which knows both architectures).
set -eu
cd "$(dirname "$0")"
echo '# file, architecture, section, link-time address'
for folder; do
	for program in "$folder"/*.elf; do
		name=$(basename "$folder")-$(basename "$program" .elf)
		readelf --debug-dump=frames-interp "$program" > "$name.txt"
		readelf -SW "$program" | sed 's/^ *\[ *[0-9]*\] *//' |
		while read -r section _ address _; do
			case $section in
			.eh_frame | .eh_frame_hdr | .debug_frame)
				llvm-objcopy --dump-section "$section=$name$section" "$program" /dev/null
				arch=$(basename "$program" | sed 's/^\(x86_64\|aarch64\).*/\1/')
				echo "$name $arch $section 0x$address"
				;;
			esac
		done
	done
done
