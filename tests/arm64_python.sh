#!/bin/sh
# arm64_python.sh FOLDER PACKAGE...: a Python for arm64 that runs here, in FOLDER/root/usr/bin/python,
# with PACKAGEs from PyPI in FOLDER/site. It is Debian's, unpacked and emulated by qemu: nothing is
# installed, nothing asks for root, and apt's own lists and packages are left alone.
set -eu
folder=$1
shift
missing() { echo "an emulated arm64 Python needs $1" >&2; exit 1; }
command -v qemu-aarch64 > /dev/null || missing "qemu-aarch64, which is in Debian's package qemu-user"
command -v apt-get > /dev/null || missing "apt-get, and Debian's packages"

rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial" "$folder/root/usr/lib"
folder=$(cd "$folder" && pwd)
touch "$folder/apt/status"
apt() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 \
        -o Dir::State::lists="$folder/apt/lists" -o Dir::State::status="$folder/apt/status" \
        -o Dir::Cache="$folder/apt" -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" "$@"
}
apt update
apt install --yes --no-install-recommends --download-only \
    python3-minimal libpython3-stdlib libpython3-dev libstdc++6 > /dev/null
ln -s usr/lib "$folder/root/lib"  # packages of some releases say /lib, others /usr/lib
for package in "$folder"/apt/archives/*.deb; do dpkg-deb -x "$package" "$folder/root"; done
rm -r "$folder/apt"

# Of 64-bit ARM, a processor without extensions: with SVE, NumPy's OpenBLAS warns of divisions by zero
# in products of finite numbers. By its argument 0 Python finds its library, and starts itself again.
python="$folder/root/usr/bin/python"
printf '#!/bin/sh\nexec qemu-aarch64 -cpu cortex-a72 -L "%s" -0 "%s" "%s" "$@"\n' \
    "$folder/root" "$python" "$(readlink -f "$folder/root/usr/bin/python3")" > "$python"
chmod +x "$python"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"${PYTHON:-python3}" -m pip install --quiet --target "$folder/site" --only-binary=:all: \
    --implementation cp --python-version "$version" --platform manylinux2014_aarch64 \
    --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 "$@"
