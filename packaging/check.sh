#!/bin/sh
# Checks an installed terp, in whatever package it came: h5repack reads and writes
# through the plugin, and the tool shows the bound. Needs terp and HDF5's tools in
# PATH, and HDF5_PLUGIN_PATH where HDF5 does not find the plugin by itself.
#   packaging/check.sh
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
terp --version
i=0
while [ $i -lt 4096 ]; do
    echo "$((i / 7)).$((i % 7))"
    i=$((i + 1))
done >values.txt
h5import values.txt -d 4096 -p x -t TEXTFP -s 32 -o in.h5
h5repack -l x:CHUNK=1024 -f UD=46117,0,3,2,1,3 in.h5 out.h5
# Without the plugin, h5repack stores the data uncompressed and ends with status 0.
terp info out.h5 | grep "relative bound 0.001"
h5repack -f NONE out.h5 plain.h5
terp compare in.h5 plain.h5 --abs 0.3 >compared.txt
echo "terp works: $(command -v terp)"
