#!/bin/sh
# Stands in for the collector: fake_collector.sh DIRECTORY light|full does as DIRECTORY/behave says.
# Each run is a line of DIRECTORY/runs, and what it was given a file of DIRECTORY/tasks.
cat > "$1/tasks/$$"
echo "$2 $$" >> "$1/runs"
read -r behave < "$1/behave"
case $behave in
crash) kill -SEGV $$ ;;
exit) printf 'a line before\nthe disk is full\n' >&2; exit 1 ;;
garbage) echo "this is no report" ;;
flood) exec yes ;;
hang) exec sleep 600 ;;
stubborn)
	trap '' TERM
	sleep 600 &
	echo $! > "$1/child"
	wait
	;;
slow) sleep 1; exec cat "$1/$behave.$2" ;;
*) exec cat "$1/$behave.$2" ;;
esac
