#!/usr/bin/env bash
# Measures the figures that bench/results/ records. Arguments are words, each
# for a set of figures; the default is the first four:
#   ratio       ratios of whole synthetic fields and of 64^3 chunks
#   speed       speed beside SZ3 on 64^3 and 128^3 chunks
#   real        ratios of real fields, where they are available
#   repack      `terp repack` beside h5repack
#   structures  small fields whose structure is hard to find; real fields at tight
#               bounds
#   lossless    real fields, lossless
#   pointwise   real fields under bounds relative to each value
#   types       real fields as other types
#   values      whether terp finds the structure of values and makes the best
#               choices (values.py)
#   rewrites    chunks that are written in parts (rewrites.py)
#   tables      compound values (tables.py)
#   connector   h5py with the connector
#   table       the README's table
#   beside      all filters of hdf5plugin, and errors at equal size
# TERP_PLUGIN_DIR is the folder in which the plugin was built
# (build/release/plugin by default). TERP_BEFORE_DIR is the folder of an earlier
# plugin; `values` then compares streams under bounds with those of that plugin.
set -euo pipefail
cd "$(dirname "$0")"

results=results
plugin=${TERP_PLUGIN_DIR:-../build/release/plugin}
real=../../shared/data/real_dev.h5
generator=../../shared/data/gen_structures.py
pipelines=terp:ratio,terp:huffman

# record NAME COMMAND...: records CSV and summary; only a complete run replaces
# earlier results.
record() {
    local name=$1
    shift
    "$@" >"$results/$name.csv.part" 2>"$results/$name.txt.part" || {
        cat "$results/$name.txt.part" >&2
        exit 1
    }
    mv "$results/$name.csv.part" "$results/$name.csv"
    mv "$results/$name.txt.part" "$results/$name.txt"
    cat "$results/$name.txt"
}

mkdir -p "$results"
[ $# -gt 0 ] || set -- ratio speed real repack
for figure in "$@"; do
    case $figure in
    ratio)
        record ratio python3 ratio.py --plugin "$plugin" \
            --fields pres,dens,mira,rtm,vel,temp,cesm,part,pres64 \
            --codecs terp:ratio,terp:huffman,sz3,pysz
        ;;
    speed)
        record speed python3 speed.py --plugin "$plugin" \
            --fields pres,vel,mira --clock cpu \
            --codecs "$pipelines,pysz,sperr,zfp"
        ;;
    real)
        if [ ! -e "$real" ]; then
            echo "real: skipped, no $real"
            continue
        fi
        record real python3 ratio.py --plugin "$plugin" \
            --fields "$real" --chunks whole \
            --codecs "terp,$pipelines,sz3,pysz,zfp,sperr"
        record real_peers python3 ratio.py --plugin "$plugin" \
            --fields "$real" --chunks whole \
            --codecs terp,pysz,pysz:lorenzo,sperr --against peers
        # Without sz3, which hangs on small chunks of NaN.
        record real_auto python3 ratio.py --plugin "$plugin" \
            --fields "$real" --chunks auto --bounds 1e-3 \
            --codecs terp:ratio,terp:huffman,pysz --against pysz
        ;;
    structures)
        if [ ! -e "$generator" ]; then
            echo "structures: skipped, no $generator"
            continue
        fi
        mkdir -p ../build/fields
        OUT=../build/fields ../build/bench-venv/bin/python "$generator"
        record structures python3 ratio.py --plugin "$plugin" \
            --fields ../build/fields/structures.h5 --chunks whole \
            --bounds 1e-2,1e-3,1e-4,1e-6 \
            --codecs terp,terp:auto:auto:best,pysz,pysz:lorenzo,sperr \
            --against peers
        record real_tight python3 ratio.py --plugin "$plugin" \
            --fields "$real" --chunks whole \
            --bounds 1e-5,1e-6,1e-7,1e-9 \
            --codecs terp,terp:auto:auto:best,pysz,pysz:lorenzo,bitshuffle \
            --against peers
        ;;
    lossless)
        if [ ! -e "$real" ]; then
            echo "lossless: skipped, no $real"
            continue
        fi
        record lossless python3 ratio.py --plugin "$plugin" \
            --fields "$real" --chunks whole --bounds 0 \
            --codecs terp,terp:auto:auto:best,bitshuffle,blosc2,gzip \
            --against peers,bitshuffle
        ;;
    pointwise)
        nyx=../../shared/data/nyx_z255_32.h5
        if [ ! -e "$real" ] || [ ! -e "$nyx" ] || [ ! -e "$generator" ]; then
            echo "pointwise: skipped, no $real, $nyx or $generator"
            continue
        fi
        mkdir -p ../build/fields
        OUT=../build/fields ../build/bench-venv/bin/python "$generator"
        fields=$nyx:/native_fields/baryon_density
        fields+=,$nyx:/native_fields/dark_matter_density
        fields+=,../build/fields/structures.h5:/density
        fields+=,../build/fields/structures.h5:/signed_density_f64
        fields+=,$real:/qmcpack_bccH/electrons/density/spin_0/density_g
        fields+=,$real:/wrf_katrina/QCLOUD,$real:/wrf_katrina/QVAPOR
        record pointwise python3 ratio.py --pointwise --plugin "$plugin" \
            --fields "$fields" --chunks whole --codecs terp,sz2 --against sz2
        ;;
    types)
        if [ ! -e "$real" ]; then
            echo "types: skipped, no $real"
            continue
        fi
        record number_types python3 number_types.py --plugin "$plugin" \
            --fields "$real"
        ;;
    values)
        values=../../shared/data/gen_values.py
        nyx=../../shared/data/nyx_z255_32.h5
        if [ ! -e "$real" ] || [ ! -e "$nyx" ] || [ ! -e "$generator" ] ||
            [ ! -e "$values" ]; then
            echo "values: skipped, no $real, $nyx, $generator or $values"
            continue
        fi
        mkdir -p ../build/fields
        OUT=../build/fields ../build/bench-venv/bin/python "$generator"
        ../build/bench-venv/bin/python "$values" ../build/fields
        before=()
        if [ -n "${TERP_BEFORE_DIR:-}" ]; then
            before=(--before "$TERP_BEFORE_DIR")
        fi
        record values python3 values.py --plugin "$plugin" "${before[@]}" \
            --values ../build/fields/values.h5 --real "$real" --nyx "$nyx" \
            --structures ../build/fields/structures.h5
        ;;
    repack)
        record repack python3 repack.py --plugin "$plugin" \
            --tool "$plugin/../tools/terp" --fields pres,vel,mira,dens \
            --large 20
        ;;
    rewrites)
        record rewrites python3 rewrites.py --plugin "$plugin"
        ;;
    tables)
        fields=()
        if [ -e "$real" ]; then
            fields=(--fields "$real")
        fi
        record tables python3 tables.py --plugin "$plugin" "${fields[@]}"
        ;;
    connector)
        # h5py's own tests need packages that no other figure needs.
        ../build/bench-venv/bin/pip install -q pytest pytest-mpi
        record connector python3 connector.py --plugin "$plugin" \
            --fields pres,mira --reps 15 --suite 4
        ;;
    beside)
        for name in pres vel; do
            ../build/bench-venv/bin/python cuda_field.py ../build/fields 256 $name
        done
        pair=../build/fields/pres_256x256x256.f32,../build/fields/vel_256x256x256.f32
        record beside python3 speed.py --plugin "$plugin" --fields "$pair" \
            --chunks 64 --clock cpu --codecs \
            terp,terp:speed,sz2,pysz,zfp,sperr,blosc2,bitshuffle,bitshuffle_lz4,gzip
        record beside_lossless python3 speed.py --plugin "$plugin" --fields "$pair" \
            --chunks 64 --bounds 0 --clock cpu --reps 5 --codecs \
            terp,zfp_lossless,blosc2,bitshuffle,bitshuffle_lz4,gzip
        record same_size python3 same_size.py --plugin "$plugin" --fields "$pair"
        if [ ! -e "$generator" ]; then
            echo "same_size_wave: skipped, no $generator"
            continue
        fi
        OUT=../build/fields ../build/bench-venv/bin/python "$generator"
        record same_size_wave python3 same_size.py --plugin "$plugin" \
            --fields ../build/fields/structures.h5:/wave --chunks whole \
            --bounds 1e-3,1e-4,1e-6 --codecs sperr
        ;;
    table)
        # A smooth and a rough field: in the chunks of the README's examples,
        # and whole, as cuda_speed takes them; both engines write the same
        # stream.
        for extent in 256 512; do
            for name in pres vel; do
                ../build/bench-venv/bin/python cuda_field.py ../build/fields \
                    $extent $name
            done
        done
        pres=../build/fields/pres_256x256x256.f32
        vel=../build/fields/vel_256x256x256.f32
        fields=(--plugin "$plugin" --fields "$pres,$vel" --chunks 64)
        record table_ratio python3 ratio.py "${fields[@]}" --bounds 1e-3 \
            --codecs terp,sz3,pysz,zfp,sperr
        record table_lossless python3 ratio.py "${fields[@]}" --bounds 0 \
            --codecs terp,pysz:lossless,zfp_lossless,blosc2 --against peers
        record table_speed python3 speed.py "${fields[@]}" --clock cpu \
            --codecs terp,pysz,zfp,sperr,blosc2
        record table_device python3 ratio.py --plugin "$plugin" \
            --fields "${pres//256/512},${vel//256/512}" --chunks whole \
            --bounds 1e-3,0 --codecs terp:ratio --against anchors
        ;;
    *)
        echo "usage: figures.sh [ratio] [speed] [real] [repack] [structures]" \
            "[lossless] [pointwise] [types] [values] [rewrites] [tables]" \
            "[connector] [table] [beside]" >&2
        exit 2
        ;;
    esac
done
