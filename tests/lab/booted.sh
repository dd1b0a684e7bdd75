# The first process of new namespaces: lays out a root of its own over this system's, and becomes
# systemd. Takes the directory that stays, the console, the unit files, the repository, and folders
# to open to all.
set -eu
told=$1 console=$2 units=$3 repository=$4
shift 4

mount -t tmpfs tmpfs /mnt
root=/mnt/root
mkdir /mnt/upper /mnt/work $root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work $root
# What lies on file systems of its own is not below that root.
for folder in "$repository" "$@"; do
    [ -e "$root$folder/." ] && [ "$(ls "$root$folder")" ] || mount --bind "$folder" "$root$folder"
done
for folder in "$@"; do chmod a+rx "$root$folder"; done

rm -rf $root/var/lib/nodecheck $root/etc/nodecheck

mount -t proc proc $root/proc
mount --bind /sys $root/sys
mount -o remount,bind,ro $root/sys
mount -t cgroup2 cgroup2 $root/sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs $root/run
mount -t tmpfs -o mode=1777 tmpfs $root/tmp
mkdir -p $root/run/lock $root/run/told $root/run/units
mount --bind "$told" $root/run/told
cp -r "$units"/. $root/run/units

mount -t tmpfs -o mode=755 tmpfs $root/dev
for name in null zero full random urandom tty kmsg; do
    touch $root/dev/$name
    mount --bind /dev/$name $root/dev/$name
done
mkdir $root/dev/pts $root/dev/shm
touch $root/dev/console
mount --bind "$console" $root/dev/console
ln -s /proc/self/fd $root/dev/fd
# Named as NVIDIA's driver names them, each another /dev/null; and one that is closed.
for name in nvidia0 nvidiactl nvidia-uvm; do mknod -m 666 $root/dev/$name c 1 3; done
mknod -m 600 $root/dev/closed c 1 3

chroot $root systemd-sysusers /run/units/nodecheck.sysusers.conf
chroot $root systemd-tmpfiles --create /run/units/nodecheck.tmpfiles.conf
cd $root
pivot_root . mnt
umount --lazy /mnt
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=lxc SYSTEMD_UNIT_PATH=/run/units \
    /lib/systemd/systemd --unit=script.service --log-target=console --log-level=notice \
    --show-status=false
