#!/bin/sh
# build_docs.sh BUILD: builds a web site of docs/ in BUILD/site. Manual pages become pages of plain text. A link to a file outside of docs/
# becomes the file's name, since the site does not contain the file.
set -eu
cd "$(dirname "$0")/.."
build=$1
command -v mkdocs >/dev/null || {
    echo "build_docs: cannot build the site without mkdocs; tools/install_packages.sh docs installs it" >&2
    exit 1
}
source=$build/site-source
rm -rf "$source" "$build/site"
mkdir -p "$build"
cp -R docs "$source"
mv "$source/mkdocs.yml" "$build/mkdocs.yml"
for page in "$source"/reference/man/*.1; do
    name=$(basename "$page" .1)
    {
        printf '# %s\n\n```text\n' "$name"
        groff -man -Tutf8 -P-c -P-b -P-o -P-u -rLL=100n "$page"
        printf '```\n'
    } >"${page%.1}.md"
    rm "$page"
done
find "$source" -name '*.md' | while IFS= read -r page; do
    below=${page#"$source"/}
    up=$(dirname "$below" | sed -e 's#[^/][^/]*#..#g')
    case $below in */*) ;; *) up=. ;; esac
    # $up is the path from this page to docs/, so a link that begins with $up/.. leads out of docs/
    sed -E -e "s#\[([^]]*)\]\($up/\.\./[^)]*\)#\1#g" -e 's#\]\((allogram[a-z-]*)\.1\)#](\1.md)#g' "$page" >"$page.new"
    mv "$page.new" "$page"
done
mkdocs build --quiet --strict --config-file "$build/mkdocs.yml"
echo "the site is $build/site/index.html"
