#!/bin/sh
# debian_source.sh PACKAGE FOLDER: unpacks Debian's source package into FOLDER and prints the folder that it created there.
#
# It calls apt-get with its own list of sources, so it does not change the machine's apt and needs no root rights.
set -eu
package=$1
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2/lists/partial"
cd "$2"

archive=$("$here/debian_archive.sh")
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
signed=
[ ! -f $keyring ] || signed="[signed-by=$keyring] "
echo "deb-src ${signed}${archive} main" >sources.list
apt_get() {
    apt-get -qq -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=- \
        -o Dir::State::Lists="$PWD/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o APT::Sandbox::User="$(id -un)" "$@"
}
apt_get update >&2
apt_get source "$package" >&2
find "$PWD" -maxdepth 1 -type d -name "$package-*" | head -n 1
