#!/bin/sh
# build_viewer.sh SOURCE WORK OUTPUT.c auto|enabled [NODE NPM]: bundles viewer/ into a C file for src/page.
#
# npm installs the packages of package-lock.json below WORK, never in the source tree. If there is no Node, or npm cannot fetch the
# packages, the C file contains a message instead of a page, and `allogram view` prints it; with `enabled` the build fails instead.
set -eu
source=$1
work=$2
output=$3
wanted=$4
node=${5:-}
npm=${6:-}

without() { # REASON ADVICE: writes the C file without a page
    if [ "$wanted" = enabled ]; then
        echo "build_viewer: $1; $2" >&2
        exit 1
    fi
    echo "build_viewer: allogram view is not built: $1" >&2
    cat >"$output" <<END
#include "page/page_template.h"

const unsigned char ag_page_template_head[1], ag_page_template_tail[1];
const size_t ag_page_template_head_bytes = 0, ag_page_template_tail_bytes = 0;
const char ag_page_template_missing[] = "this allogram was built without its page ($1); $2";
END
    exit 0
}

if [ -z "$node" ] || [ -z "$npm" ]; then
    without "no Node" "install nodejs and npm, then build it again"
fi

mkdir -p "$work"
if ! cmp -s "$source/package-lock.json" "$work/package-lock.json" || [ ! -d "$work/node_modules" ]; then
    cp "$source/package.json" "$source/package-lock.json" "$work/"
    if ! (cd "$work" && "$npm" ci --no-audit --no-fund --loglevel=error >"$work/npm.log" 2>&1); then
        rm -f "$work/package-lock.json"
        without "npm could not fetch its packages" "see npm.log in the build folder, then build it again"
    fi
fi
rm -rf "$work/src"
cp -r "$source/src" "$source/bundle.mjs" "$source/skeleton.html" "$work/"
output=$(cd "$(dirname "$output")" && pwd)/$(basename "$output")
cd "$work"
"$node" bundle.mjs "$output"
