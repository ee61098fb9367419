#!/bin/sh
# jq_from_source.sh FOLDER: Debian's source package of jq, compiled with debug symbols into FOLDER/jq.
#
# The installed jq has none, and its symbols' package lives in an archive that few machines have configured. The source comes
# through apt with a list of its own, so nothing about this machine's apt is changed, and no root rights are needed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
[ ! -x "$folder/jq" ] || exit 0
mkdir -p "$folder/lists/partial"
cd "$folder"

archive=$("$here/../tools/debian_archive.sh")
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
signed=
[ ! -f $keyring ] || signed="[signed-by=$keyring] "
echo "deb-src ${signed}${archive} main" >sources.list
apt_get() {
    apt-get -qq -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=- \
        -o Dir::State::Lists="$PWD/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o APT::Sandbox::User="$(id -un)" "$@"
}
apt_get update
apt_get source jq >/dev/null

# What its configure would find out on any Debian; regular expressions (oniguruma) stay out.
cd "$(find . -maxdepth 1 -type d -name 'jq-*' | head -n 1)"
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
