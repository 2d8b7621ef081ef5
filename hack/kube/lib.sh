# shellcheck shell=bash disable=SC2034 # settings that the scripts here share; they source this
# State and binaries: $KELPIE_KUBE_DIR, else build/kube of this checkout.
RIG=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
DIR=${KELPIE_KUBE_DIR:-$(cd "$RIG/../.." && pwd)/build/kube}
BIN=$DIR/bin PKI=$DIR/pki RUN=$DIR/run IMAGES=$DIR/images
BRIDGE=kelpiebr0                       # in the machine's own network namespace
BRIDGE_IP=10.87.0.1                    # nodes are 10.87.0.(10+i), their pods 10.88.i.0/24
API_PORT=${KELPIE_KUBE_PORT:-16443}    # without nodes on 127.0.0.1, else on the bridge
ETCD_PORT=$((API_PORT + 1)) ETCD_PEER_PORT=$((API_PORT + 2))
SERVICE_CIDR=10.96.0.0/16 POD_CIDR=10.88.0.0/16 DNS_IP=10.96.0.10
CGROUP=kelpie-kube                     # in every cgroup hierarchy of version 1

node_ip() { echo "10.87.0.$((10 + $1))"; }

T0=${T0:-$(date +%s%N)}
say() { printf '%7.2f s  %s\n' "$((($(date +%s%N) - T0) / 1000000))e-3" "$*"; }
die() {
	echo "hack/kube: $*" >&2
	exit 1
}

# A pid file holds "pid start-time", so that a process which got the pid later is never taken for ours.
start_time() { awk '{ sub(/^.*\) /, ""); print $20 }' "/proc/$1/stat" 2>/dev/null; }
save_pid() { echo "$2 $(start_time "$2")" >"$RUN/$1.pid"; }
# The first thread is a zombie while others still hold the ports: gone is what has only a zombie left.
is_gone() {
	local state
	state=$(awk '{ sub(/^.*\) /, ""); print $1 }' "/proc/$1/stat" 2>/dev/null)
	[ -z "$state" ] || { [ "$state" = Z ] && [ "$(ls "/proc/$1/task" 2>/dev/null)" = "$1" ]; }
}
live_pid() { # NAME: its pid, if it runs and is ours
	local pid since
	[ -f "$RUN/$1.pid" ] || return 1
	read -r pid since <"$RUN/$1.pid" || return 1
	[ -n "$since" ] && [ "$(start_time "$pid")" = "$since" ] && ! is_gone "$pid" && echo "$pid"
}
start() { # NAME COMMAND...: detached, unless it runs already
	local name=$1
	shift
	live_pid "$name" >/dev/null && return 0
	setsid "$@" </dev/null >>"$RUN/$name.log" 2>&1 &
	save_pid "$name" $!
}
stop() { # NAME [SIGNAL]
	local pid
	pid=$(live_pid "$1") || {
		rm -f "$RUN/$1.pid"
		return 0
	}
	kill "-${2:-TERM}" "$pid" 2>/dev/null || true
	for _ in $(seq 100); do
		is_gone "$pid" && break
		sleep 0.05
	done
	is_gone "$pid" || kill -KILL "$pid" 2>/dev/null
	rm -f "$RUN/$1.pid"
}
wait_for() { # SECONDS WHAT COMMAND...: asks again and again; at the end says what was waited for
	local until=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" 2>/dev/null; do
		[ $SECONDS -lt $until ] || {
			tail -n 5 "$RUN"/*.log "$DIR"/node*/log/*.log >&2 2>/dev/null || true
			die "waited in vain for $what (logs: $RUN/*.log, $DIR/node*/log/)"
		}
		sleep 0.1
	done
}
