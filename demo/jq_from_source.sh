#!/bin/sh
# jq_from_source.sh FOLDER: compiles Debian's source package of jq, with debug symbols, to FOLDER/jq.
#
# The installed jq has no debug symbols. The package that contains them is in an archive that few machines have configured.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
[ ! -x "$folder/jq" ] || exit 0
source=$("$here/../tools/debian_source.sh" jq "$folder" 2>/dev/null)

# The files and macros that jq's configure would make on Debian. jq is built without regular expressions (oniguruma).
cd "$source"
sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$/\\n"/' src/builtin.jq >src/builtin.inc
echo '#define JQ_VERSION "from source"' >src/version.h
has=
for word in MEMMEM GETTIMEOFDAY TIMEGM GMTIME_R STRPTIME ISATTY TM_TM_GMT_OFF \
    ACOS ASIN ATAN ATAN2 CEIL COS EXP EXP10 EXP2 FABS FLOOR FMOD FREXP LDEXP LOG LOG10 LOG2 MODF POW ROUND SIN SQRT TAN TRUNC; do
    has="$has -DHAVE_$word"
done
rm -f src/inject_errors.c
# shellcheck disable=SC2086 # a list of flags
cc -O2 -g -w -D_GNU_SOURCE -DIEEE_8087=1 $has -I. -o ../jq.made src/*.c -lm -lpthread 2>/dev/null
mv ../jq.made ../jq
