#!/bin/sh
# debian_archive.sh: prints the address of the Debian archive that apt uses on this machine, and the name of its release.
#
# Scripts use it so that they contain no address and use the mirror of the machine. This script fails if apt has no Debian archive.
set -eu
command -v apt-get >/dev/null || exit 1

archive() {
    # shellcheck disable=SC2016 # apt's own variables
    apt-get indextargets --format '$(SITE) $(CODENAME) $(LABEL)' 'Created-By: Packages' 2>/dev/null |
        awk '$3 == "Debian" && $2 !~ /-/ {print $1, $2; exit}'
}

found=$(archive)
if [ -z "$found" ] && [ "$(id -u)" = 0 ]; then
    apt-get -qq update >&2 || exit 1 # there are no labels if apt's lists were never fetched, or were removed
    found=$(archive)
fi
[ -n "$found" ] || exit 1
echo "$found"
