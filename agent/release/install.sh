#!/bin/sh
# Installs, upgrades and removes nodecheck from the tarball that this file lies in. Uses no network.
# Needs /bin/sh and Python with its module venv.
set -eu
umask 022

usage() {
    cat <<'END'
Usage: ./install.sh [--prefix DIR] [--bin DIR] [--python PROGRAM]
       ./install.sh --uninstall [--prefix DIR]

  --prefix DIR      where it is kept (/opt/nodecheck; not as root: ~/.local/lib/nodecheck)
  --bin DIR         where the command is linked (/usr/local/bin; not as root: ~/.local/bin); man
                    pages and completions go to share/ beside it
  --python PROGRAM  the Python to use, of the version that the file "serves" names
  --uninstall       remove it; policy and history stay

A newer version is installed over an older one; where that fails, the older one is left as it was.
END
}

fail() {
    echo "install.sh: $1" >&2
    exit "${2:-1}"
}

here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" -eq 0 ]; then
    prefix=/opt/nodecheck bin=/usr/local/bin
else
    prefix=${HOME:?}/.local/lib/nodecheck bin=$HOME/.local/bin
fi
python='' uninstall=''
while [ $# -gt 0 ]; do
    case $1 in
        --prefix | --bin | --python)
            [ -n "${2:-}" ] || fail "$1 needs a value" 2
            case $1 in
                --prefix) prefix=${2%/} ;;
                --bin) bin=${2%/} ;;
                --python) python=$2 ;;
            esac
            shift 2
            ;;
        --uninstall) uninstall=yes; shift ;;
        -h | --help) usage; exit 0 ;;
        *) fail "$1: no such option; try --help" 2 ;;
    esac
done
case $prefix in /*) ;; *) fail "--prefix $prefix: not an absolute path" 2 ;; esac
case $bin in /*) ;; *) fail "--bin $bin: not an absolute path" 2 ;; esac
# Shell and Python both have to find it in the first line of a script.
case $prefix in *[[:space:]]*) fail "--prefix $prefix: it has a space in it" 2 ;; esac

# What lies in the prefix: release-*/ (an environment each), current -> one of them, and links, which
# lists the links outside that lead to current.

remove_links() { # those of the list on standard input, where they still lead here
    while IFS= read -r link; do
        case $(readlink "$link" 2>/dev/null || :) in "$prefix"/*) rm -f "$link" ;; esac
    done
}

if [ -n "$uninstall" ]; then
    [ -f "$prefix/links" ] || fail "$prefix: nothing that install.sh has put there; give its --prefix"
    [ -w "$prefix" ] || fail "$prefix: not yours to change; run it as the user who installed it"
    remove_links <"$prefix/links"
    rm -rf "$prefix"/release-* "$prefix/current" "$prefix/links" "$prefix/lock"
    rmdir "$prefix" 2>/dev/null || echo "install.sh: $prefix: other files are left there"
    echo "nodecheck is removed; policy (/etc/nodecheck) and history (/var/lib/nodecheck) stay"
    exit 0
fi

[ -f "$here/serves" ] || fail "$here: not an unpacked tarball of nodecheck: the file serves is missing"
# version, python_version, machine and glibc.
. "$here/serves"

# Before anything is touched: is this the right machine, the right Python, the whole tarball?
if [ -z "$python" ]; then
    python=$(command -v "python$python_version" || command -v python3) \
        || fail "no Python here: install python$python_version, or give --python"
fi
command -v "$python" >/dev/null || fail "$python: no such program"
"$python" -I -S - "$here" "$python_version" "$machine" "$glibc" <<'END' || exit 1
import hashlib, os, platform, sys, sysconfig

here, version, machine, glibc = sys.argv[1:]
program = sys.executable


def fail(why):
    sys.exit("install.sh: " + why)


def numbers(text):
    return [int(part) for part in text.split(".")]


for_it = "this tarball is for CPython %s on %s" % (version, machine)
mine = "%d.%d" % sys.version_info[:2]
if mine != version or platform.python_implementation() != "CPython":
    fail("%s is %s %s, %s: give --python, or build a tarball with such a Python"
         % (program, platform.python_implementation(), mine, for_it))
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    fail("%s is a free-threaded build, %s as usual builds are" % (program, for_it))
if sysconfig.get_platform() != "linux-" + machine:
    fail("%s is of %s, %s" % (program, sysconfig.get_platform(), for_it))
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
except (AttributeError, OSError, ValueError, IndexError):
    fail("no glibc here, the tarball needs glibc %s or newer" % glibc)
if numbers(libc) < numbers(glibc):
    fail("glibc %s here, the tarball needs %s or newer: build it on an older distribution" % (libc, glibc))
try:
    import venv
except ImportError:
    fail("%s has no venv: apt-get install python%s-venv, or what the distribution calls it" % (program, mine))
with open(os.path.join(here, "SHA256SUMS")) as sums:
    for line in sums:
        expected, name = line.rstrip("\n").split("  ", 1)
        try:
            with open(os.path.join(here, name), "rb") as file:
                found = hashlib.sha256(file.read()).hexdigest()
        except OSError as error:
            fail("%s: %s: unpack the tarball again" % (name, error.strerror))
        if found != expected:
            fail("%s is damaged: copy and unpack the tarball again" % name)
END
if [ -e "$prefix" ] && [ ! -f "$prefix/links" ] && [ -n "$(ls -A "$prefix" 2>/dev/null)" ]; then
    fail "$prefix: holds what install.sh has not put there: remove it, or give another --prefix"
fi
if [ -e "$bin/nodecheck" ] || [ -L "$bin/nodecheck" ]; then
    case $(readlink "$bin/nodecheck" || :) in
        "$prefix"/*) ;;
        *) fail "$bin/nodecheck: is there already and does not lead to $prefix: remove it, or give another --bin" ;;
    esac
fi
share=$(dirname "$bin")/share
for place in "$prefix" "$bin" "$share"; do
    while [ ! -e "$place" ]; do place=$(dirname "$place"); done
    [ -d "$place" ] && [ -w "$place" ] || fail "$place: no directory that you may write to"
done

mkdir -p "$prefix"
exec 9>"$prefix/lock"
"$python" -I -S -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null \
    || fail "$prefix: another install.sh is at work there"
[ -f "$prefix/links" ] || : >"$prefix/links"

# The new release beside the old one. Until `current` is turned, nothing leads to it.
release=$prefix/release-$version-$$
log=$release.log
undo() {
    rm -rf "$release" "$log"
    [ -L "$prefix/current" ] || { rm -f "$prefix/lock" "$prefix/links"; rmdir "$prefix" 2>/dev/null; } || :
}
trap undo EXIT
trap 'exit 1' HUP INT TERM
step() { # what is done, its command
    what=$1
    shift
    "$@" >"$log" 2>&1 || fail "$what failed, nothing was changed: $(grep . "$log" | tail -n 1)"
}
step "making the environment" "$python" -I -m venv --without-pip "$release"
step "installing the wheels" env PIP_CONFIG_FILE=/dev/null \
    "$release/bin/python" -I "$(echo "$here"/wheels/pip-*.whl)/pip" --isolated install \
    --disable-pip-version-check --no-cache-dir --no-index --find-links "$here/wheels" \
    "nodecheck[daemon]==$version"
step "copying man pages and completions" cp -R "$here/share" "$release/"
step "copying install.sh" cp "$here/install.sh" "$release/"
step "trying the new release" "$release/bin/nodecheck" --version
step "loading the new release" "$release/bin/python" -I -c \
    'import jinja2, prometheus_client, psutil, uvicorn, nodecheck._native, nodecheck.cli.report'
rm -f "$log"

old=$(readlink "$prefix/current" || :)
turn() { # a link, what it leads to: renamed into place, so that it always leads somewhere
    mkdir -p "$(dirname "$1")"
    ln -s "$2" "$1.new.$$"
    "$python" -I -S -c 'import os, sys; os.rename(*sys.argv[1:])' "$1.new.$$" "$1"
}
turn "$prefix/current" "$(basename "$release")"
trap - EXIT
{
    echo "$bin/nodecheck"
    (cd "$release/share" && find . -type f | sed "s|^\.|$share|")
} >"$prefix/links.new"
turn "$bin/nodecheck" "$prefix/current/bin/nodecheck"
(cd "$release/share" && find . -type f) | while IFS= read -r file; do
    turn "$share/${file#./}" "$prefix/current/share/${file#./}"
done
# Links of before that are none now: another --bin, or a page that is gone.
grep -vxF -f "$prefix/links.new" "$prefix/links" | remove_links || :
mv "$prefix/links.new" "$prefix/links"
# A daemon that runs still loads from the release before; older ones are of no use.
for directory in "$prefix"/release-*; do
    case $directory in "$release" | "$prefix/$old") ;; *) rm -rf "$directory" ;; esac
done

echo "nodecheck $version is installed: $bin/nodecheck"
case :$PATH: in *:"$bin":*) ;; *) echo "  not on the PATH yet: add $bin" ;; esac
if [ -n "$old" ]; then
    echo "  a daemon that runs goes on with the version before until: systemctl restart nodecheck"
fi
