#!/bin/sh
# Builds the container image without a base image: Debian's packages of the C library, the C++ runtime and a shell, and the
# tarball of bin/tarball. The image runs like that of deploy/Dockerfile. Needs a machine with Debian's apt, and buildah.
#   deploy/image.sh output/oddslake-0.1.0-linux-x64.tar.gz              the image localhost/oddslake:0.1.0
#   deploy/image.sh output/oddslake-0.1.0-linux-x64.tar.gz NAME:TAG
# buildah reads its settings from its own variables: STORAGE_DRIVER=vfs where the kernel refuses overlays.
set -eu
[ $# -ge 1 ] || { sed -n '2,$s/^# \{0,1\}//p;/^set/q' "$0" >&2; exit 2; }
tarball=$(realpath "$1")
name=$(basename "$tarball" .tar.gz)
version=${name#oddslake-}
version=${version%%-linux-*}
image=${2:-localhost/oddslake:$version}
# base-files brings /etc/os-release, by which scanners know the packages.
packages='base-files dash libc6 libgcc-s1 libstdc++6'

work=$(mktemp -d)
container=
trap 'rm -rf "$work"; [ -z "$container" ] || buildah rm "$container" >/dev/null' EXIT
mkdir -p "$work/packages" "$work/root/opt" "$work/lake"
# apt's own user cannot write into this folder.
(cd "$work/packages" && apt-get download -qq -o APT::Sandbox::User=root $packages)
mkdir -p "$work/root/var/lib/dpkg/status.d"
for package in "$work"/packages/*.deb; do
  dpkg-deb --extract "$package" "$work/root"
  dpkg-deb --field "$package" >"$work/root/var/lib/dpkg/status.d/$(dpkg-deb --field "$package" Package)"
done
# dpkg's link of dash; other links and folders are in the packages.
[ -e "$work/root/bin/sh" ] || ln -s dash "$work/root/bin/sh"
echo 'root:x:0:0:root:/root:/bin/sh
oddslake:x:10001:10001:oddslake:/lake:/bin/sh' >"$work/root/etc/passwd"
echo 'root:x:0:
oddslake:x:10001:' >"$work/root/etc/group"
mkdir -p "$work/root/tmp"
chmod 1777 "$work/root/tmp"
tar -xzf "$tarball" -C "$work/root/opt"
mv "$work/root/opt/$name" "$work/root/opt/oddslake"
seconds=$(stat -c %Y "$work/root/opt/oddslake/package.json")

# The format of Docker has the health check.
export BUILDAH_FORMAT=docker
container=$(buildah from scratch)
buildah copy --quiet --chown 0:0 "$container" "$work/root" / >/dev/null
# The user 10001 owns the archive. A volume that is mounted here gets the same owner.
chmod 0750 "$work/lake"
buildah copy --quiet --chown 10001:10001 "$container" "$work/lake" /lake >/dev/null
# As in deploy/Dockerfile, which says why.
buildah config --user 10001:10001 --workingdir /lake --port 9464 --port 8080 \
  --label org.opencontainers.image.title=oddslake --label org.opencontainers.image.licenses=Apache-2.0 \
  --label "org.opencontainers.image.version=$version" \
  --env PATH=/opt/oddslake/bin:/opt/oddslake/.node/bin:/usr/bin:/bin --env NODE_ENV=production --env ODDSLAKE_OUTPUT=/lake \
  --env XDG_CACHE_HOME=/tmp/cache --env HEALTH_URL=http://127.0.0.1:9464/healthz \
  --healthcheck 'CMD ["node", "-e", "fetch(process.env.HEALTH_URL).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]' \
  --healthcheck-interval 30s --healthcheck-timeout 5s --healthcheck-start-period 60s --healthcheck-retries 3 \
  --entrypoint '["/opt/oddslake/bin/oddslake"]' \
  --cmd '["schedule", "--set", "schedule.host=0.0.0.0", "--set", "schedule.port=9464"]' "$container"
buildah commit --quiet --format docker --timestamp "$seconds" "$container" "$image" >"$work/id"
echo "image: $image, $(cut -c1-12 "$work/id")"
