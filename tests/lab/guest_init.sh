#!/bin/busybox sh
# Pid 1 of a guest: runs nodecheck as an ordinary user and sends what it said over the second
# serial port: a packed directory in base64, then a line "end.". capture=yes comes from the kernel's
# command line and adds a captured tree.
export PATH=/usr/bin:/bin PYTHONPATH=/opt/nodecheck
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
python3 -m nodecheck --json --quick > report.json 2> errors
echo $? > status
cut -d ' ' -f 1 /proc/uptime >> seconds
[ "$capture" ] || exit 0
python3 -m nodecheck capture tree > capture.txt 2>> errors
echo $? > capture.status
JOB
su user -c 'sh /tmp/job'

tar -c -z -C /tmp/out . | base64 > /dev/ttyS1
echo end. > /dev/ttyS1
poweroff -f
