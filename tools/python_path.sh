# shellcheck shell=sh
# python_path.sh, to be read by `.`: puts the folder of the Python interpreter itself first in PATH, where python3 is a script of pyenv. That
# script searches for the interpreter at each start, which takes five times as long as the start; the tests start python3 thousands of times.
case $(command -v python3) in
*/shims/*)
    PATH=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH
    export PATH
    ;;
esac
