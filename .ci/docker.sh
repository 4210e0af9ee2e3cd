#!/usr/bin/env bash
# A Docker daemon with a sandbox image, for the tests that need one: what runs already is used, else Debian's package
# is installed and its daemon started. Where that cannot be, it says why and exits with 0, and those tests skip.
#   .ci/docker.sh [BIN]   the directory of a Python that has rlvr[code] installed; the image is made from it
set -uo pipefail
cd "$(dirname "$0")/.."
bin=${1:-.venv/bin}
image=rlvr-sandbox:host
log=${TMPDIR:-/tmp}/rlvr-dockerd.log
runsc=${TMPDIR:-/tmp}/rlvr-runsc
runtimes=()

give_up() {
    echo "no Docker tests: $1"
    exit 0
}

answers() {
    "$bin/python" -c 'import docker; print(docker.from_env(timeout=5).version()["Version"])' 2>/dev/null
}

install_docker() {
    command -v dockerd >/dev/null && return
    command -v apt-get >/dev/null || give_up "there is no dockerd, and no apt-get to install it"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends docker.io; } >"$log" 2>&1 </dev/null ||
        give_up "docker.io cannot be installed: $(tail -n 1 "$log")"
}

# gVisor for its tests, which skip without. It is to look for no network: a container of the sandbox has none.
prepare_gvisor() {
    command -v runsc >/dev/null ||
        apt-get install -y -qq --no-install-recommends runsc >/dev/null 2>&1 </dev/null || return 0
    printf '#!/bin/sh\nexec runsc --network=none "$@"\n' >"$runsc" && chmod +x "$runsc" &&
        runtimes=(--add-runtime "runsc=$runsc")
}

# No bridge and no firewall rules: the sandbox has no network anyway.
start_daemon() {
    setsid nohup dockerd --iptables=false --bridge=none "${runtimes[@]}" "$@" >"$log" 2>&1 </dev/null &
    local daemon=$!
    for _ in $(seq 60); do
        answers >/dev/null && return 0
        kill -0 "$daemon" 2>/dev/null || return 1
        sleep 0.5
    done
    kill "$daemon" 2>/dev/null
    wait "$daemon" 2>/dev/null
    return 1
}

"$bin/python" -c 'import docker' 2>/dev/null || give_up "$bin/python has no package docker (pip install 'rlvr[code]')"
if ! version=$(answers); then
    [ -z "${DOCKER_HOST:-}" ] || give_up "the daemon at $DOCKER_HOST does not answer"
    [ "$(id -u)" = 0 ] || give_up "no daemon answers, and only root can start one"
    install_docker
    prepare_gvisor
    # vfs copies each layer whole and works on any file system.
    start_daemon || start_daemon --storage-driver=vfs || give_up "dockerd does not start: $(tail -n 1 "$log")"
    version=$(answers)
fi
"$bin/rlvr" sandbox build-image --tag "$image" || give_up "the image $image cannot be built"
echo "Docker $version answers and has the image $image"
