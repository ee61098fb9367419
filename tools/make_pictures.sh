#!/bin/sh
# make_pictures.sh BUILD: makes the pictures of the documents again: docs/view.png from the page of `make demo`, and
# docs/explanation/overhead.svg from bench/results. Needs Chromium.
set -eu
cd "$(dirname "$0")/.."
build=$1
make --silent demo BUILD="$build" >/dev/null
page=$(ls -- "$build"/demo/*.html)
node viewer/screenshot.mjs "$build/viewer/npm" "$page" docs/view.png '#metric=peak&from=20&to=150'
python3 bench/overhead_page.py
