#!/bin/busybox sh
# Pid 1 of a guest: runs nodecheck as an ordinary user and sends what it said over the second
# serial port: a packed directory in base64, then a line "end.". From the kernel's command line come
# asked="ARGUMENTS" for nodecheck; capture=yes, which adds a captured tree; nvml=NAME, the cards that
# a stand-in for NVIDIA's library tells of; watch=yes, which notes where threads and memory lie
# meanwhile; and memory_max and cpu_max, the limits of a control group that all this is done in.
export PATH=/usr/bin:/bin PYTHONPATH=/opt/nodecheck
[ "$nvml" ] && export LD_LIBRARY_PATH=/opt/nvml FAKE_NVML=/opt/nvml/$nvml
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs -o mode=1777 tmpfs /tmp
hostname guest

cat > /tmp/job <<'JOB'
mkdir /tmp/out
cd /tmp/out
id -u > user
cut -d ' ' -f 1 /proc/uptime > seconds
python3 -m nodecheck $asked --json > report.json 2> errors
echo $? > status
cut -d ' ' -f 1 /proc/uptime >> seconds
[ "$capture" ] || exit 0
python3 -m nodecheck capture tree > capture.txt 2>> errors
echo $? > capture.status
JOB

# "CPU PAGES PAGES": the one CPU of a measuring thread, and how many pages of its process's large
# memories (24 MiB and more) lie on nodes 0 and 1
cat > /tmp/watch <<'WATCH'
renice -n -19 $$ > /dev/null
while sleep 0.05; do
    for status in $(printf '/proc/%s/task/*/status ' $(pidof python3)); do
        cpu=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\)$/\1/p' $status)
        [ "$cpu" ] && echo $cpu $(awk '/anon=/ {
            split("", pages)
            for (i = 3; i <= NF; i++) { split($i, pair, "="); pages[pair[1]] = pair[2] }
            if (pages["anon"] > 6144) { first += pages["N0"]; second += pages["N1"] }
        } END { print first + 0, second + 0 }' ${status%/task*}/numa_maps)
    done
done 2> /dev/null
WATCH
[ "$watch" ] && sh /tmp/watch > /tmp/watched &

group=/sys/fs/cgroup/limited
if [ "$memory_max$cpu_max" ]; then
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    echo '+memory +cpu' > /sys/fs/cgroup/cgroup.subtree_control
    mkdir $group
    echo ${memory_max:-max} > $group/memory.max
    echo ${cpu_max:-max} > $group/cpu.max
    sh -c "echo \$\$ > $group/cgroup.procs; exec su user -c 'sh /tmp/job'"
    for file in memory.events memory.peak cpu.stat; do cat $group/$file > /tmp/out/$file; done
else
    su user -c 'sh /tmp/job'
fi
[ "$watch" ] && cp /tmp/watched /tmp/out

tar -c -z -C /tmp/out . | base64 > /dev/ttyS1
echo end. > /dev/ttyS1
poweroff -f
