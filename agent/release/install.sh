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
for place in "$prefix" "$bin"; do
    case $place in
        /) fail "$place: give a folder of its own" 2 ;;
        /*) ;;
        *) fail "$place: not an absolute path" 2 ;;
    esac
    case $place/ in *//* | */./* | */../*) fail "$place: write it without //, . and .." 2 ;; esac
    case $place in *[[:cntrl:]]*) fail "--prefix or --bin: a control character is in it" 2 ;; esac
done
# Shell and Python both have to find it in the first line of a script.
case $prefix in *[[:space:]]*) fail "--prefix $prefix: it has a space in it" 2 ;; esac

# What lies in the prefix: release-*/ (an environment each), current -> one of them, and links, which
# lists the links outside that lead to current.

leads_here() { # a link
    case $(readlink "$1" 2>/dev/null || :) in "$prefix"/*) ;; *) return 1 ;; esac
}

remove_links() { # those of the list on standard input, where they still lead here
    while IFS= read -r link; do
        if leads_here "$link"; then rm -f "$link"; fi
    done
}

lock() { # with this Python; where it is gone, nothing is at work with it
    exec 9>"$prefix/lock"
    "$1" -I -S -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null
}

if [ -n "$uninstall" ]; then
    [ -f "$prefix/links" ] || fail "$prefix: nothing that install.sh has put there; give its --prefix"
    [ -w "$prefix" ] || fail "$prefix: not yours to change; run it as the user who installed it"
    if [ -x "$prefix/current/bin/python" ]; then
        lock "$prefix/current/bin/python" || fail "$prefix: another install.sh is at work there"
    fi
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
status=0
found=$("$python" -I -S - "$here" "$python_version" "$machine" "$glibc" <<'END'
import hashlib, os, platform, sys, sysconfig

here, version, machine, glibc = sys.argv[1:]
program = sys.executable


def fail(why):
    print(why)
    sys.exit(3)


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
print("right")
END
) || status=$?
[ "$status" -ne 3 ] || fail "$found"
[ "$status$found" = 0right ] || fail "$python: not a Python that runs (exit status $status): give --python"
if [ -e "$prefix" ] && [ ! -f "$prefix/links" ] && [ -n "$(ls -A "$prefix" 2>/dev/null)" ]; then
    fail "$prefix: holds what install.sh has not put there: remove it, or give another --prefix"
fi
share=$(dirname "$bin")/share
links=$(
    echo "$bin/nodecheck"
    cd "$here/share" && find . -type f | while IFS= read -r page; do echo "$share${page#.}"; done
)
for_each_link() { # a command that takes a link
    echo "$links" | while IFS= read -r link; do "$1" "$link" || exit 1; done
}
is_free() {
    if [ -e "$1" ] || [ -L "$1" ]; then
        leads_here "$1" || fail "$1: is there already and does not lead to $prefix: remove it, or give another --bin"
    fi
    is_writable "$(dirname "$1")"
}
is_writable() { # or can be made
    place=$1
    while [ ! -e "$place" ] && [ ! -L "$place" ]; do place=$(dirname "$place"); done
    [ -d "$place" ] && [ -w "$place" ] || fail "$place: no directory that you may write to"
}
is_writable "$prefix"
for_each_link is_free || exit 1

mkdir -p "$prefix"
lock "$python" || fail "$prefix: another install.sh is at work there"
[ -f "$prefix/links" ] || : >"$prefix/links"

# The new release beside the old one. Whatever ends this before it is done, all is as it was.
release=$prefix/release-$version-$$
old=$(readlink "$prefix/current" || :)
before=$(cat "$prefix/links")
turn() { # a link, what it leads to: renamed into place, so that it always leads somewhere
    mkdir -p "$(dirname "$1")" && ln -s "$2" "$1.new.$$" || return 1
    "$python" -I -S -c 'import os, sys; os.rename(*sys.argv[1:])' "$1.new.$$" "$1" && return
    rm -f "$1.new.$$"
    return 1
}
undo() {
    if [ -n "$old" ]; then turn "$prefix/current" "$old"; else rm -f "$prefix/current"; fi
    echo "$links" | { grep -vxF -e "$before" || :; } | remove_links
    echo "$before" >"$prefix/links"
    rm -rf "$release"
    [ -n "$old" ] || { rm -f "$prefix/lock" "$prefix/links"; rmdir "$prefix" 2>/dev/null; } || :
}
trap undo EXIT
trap 'exit 1' HUP INT TERM
step() { # what is done, its command
    what=$1
    shift
    said=$("$@" 2>&1) || fail "$what failed, nothing was changed: $(echo "$said" | grep . | tail -n 1)"
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

link_one() {
    if [ "$1" = "$bin/nodecheck" ]; then
        turn "$1" "$prefix/current/bin/nodecheck"
    else
        turn "$1" "$prefix/current/share${1#"$share"}"
    fi || fail "$1: could not be made, nothing was changed"
}
printf '%s\n' "$before" "$links" | sort -u >"$prefix/links" # an uninstall in the midst finds them all
turn "$prefix/current" "$(basename "$release")"
for_each_link link_one || exit 1
trap - EXIT
# Links of before that are none now: another --bin, or a page that is gone.
echo "$before" | { grep -vxF -e "$links" || :; } | remove_links
echo "$links" >"$prefix/links"
# A daemon that runs still loads from the release before; older ones are of no use.
for directory in "$prefix"/release-*; do
    case $directory in "$release" | "$prefix/$old") ;; *) rm -rf "$directory" ;; esac
done

echo "nodecheck $version is installed: $bin/nodecheck"
case :$PATH: in *:"$bin":*) ;; *) echo "  not on the PATH yet: add $bin" ;; esac
if [ -n "$old" ]; then
    echo "  a daemon that runs goes on with the version before until: systemctl restart nodecheck"
fi
