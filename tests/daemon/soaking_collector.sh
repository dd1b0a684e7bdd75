#!/bin/sh
# Stands in for the collector of a simulated day: soaking_collector.sh DIRECTORY PYTHON light|full
# does as DIRECTORY/behave says. It says in DIRECTORY/ready that it hangs from here on.
read -r behave < "$1/behave"
[ "$behave" = real ] || cat > /dev/null
case $behave in
crash) kill -SEGV $$ ;;
exit) echo "the driver is gone" >&2; exit 1 ;;
traceback) printf 'Traceback (most recent call last):\nMemoryError: %s\n' "out of it" >&2; exit 1 ;;
garbage) printf '\301'; head -c 5000 /dev/urandom ;;
cut) head -c 40 "$1/answer" ;;
empty) ;;
flood) exec yes ;;
hang) : > "$1/ready"; exec sleep 600 ;;
stubborn)
	trap '' TERM
	sleep 600 &
	: > "$1/ready"
	wait
	;;
unkillable) : > "$1/ready"; exec cat "$1/mount/file" ;;
slow)
	: > "$1/ready"
	while [ ! -e "$1/go" ]; do sleep 0.01; done
	exec cat "$1/answer"
	;;
real)
	"$2" -m nodecheck.daemon.collector "$3" > "$1/answer" || exit 1
	exec cat "$1/answer"
	;;
*) exec cat "$1/answer" ;;
esac
