#!/bin/sh
# debian_archive.sh: prints the address of the Debian archive that apt uses on this machine, and its release's name.
#
# So no address stands in this tree, and a machine behind a mirror uses its mirror. Fails where apt knows no such archive.
set -eu
command -v apt-get >/dev/null || exit 1

archive() {
    # shellcheck disable=SC2016 # apt's own variables
    apt-get indextargets --format '$(SITE) $(CODENAME) $(LABEL)' 'Created-By: Packages' 2>/dev/null |
        awk '$3 == "Debian" && $2 !~ /-/ {print $1, $2; exit}'
}

found=$(archive)
if [ -z "$found" ] && [ "$(id -u)" = 0 ]; then
    apt-get -qq update >&2 || exit 1 # lists that were never fetched, or cleaned away, have no labels
    found=$(archive)
fi
[ -n "$found" ] || exit 1
echo "$found"
