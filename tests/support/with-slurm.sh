#!/usr/bin/env bash
# `with-slurm.sh DIRECTORY COMMAND…` runs a command while SLURM's controller and one node run on this machine, as root,
# on loopback, without systemd. The node has eight processors for SLURM, however many there are, so that tasks overlap.
set -euo pipefail
for program in slurmctld slurmd sbatch munged; do
    command -v "$program" >/dev/null || { echo "$program is not installed. Debian: apt-get install slurm-wlm munge" >&2; exit 1; }
done
dir=$1 host=$(hostname -s)
export SLURM_CONF=$dir/slurm.conf
mkdir -p "$dir"/{state,spool} /run/munge
chown munge /run/munge
cat >"$SLURM_CONF" <<CONF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmdParameters=config_overrides
CommunicationParameters=NoInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES
CONF
pids=()
trap 'kill "${pids[@]}"; wait' EXIT
setpriv --reuid=munge --regid=munge --clear-groups munged --foreground --force >"$dir/munge.log" 2>&1 & pids+=($!)
sleep 1
slurmctld -D >"$dir/controller.log" 2>&1 & pids+=($!)
sleep 2
slurmd -D >"$dir/node.log" 2>&1 & pids+=($!)
for _ in {1..20}; do
    if sinfo -h -o %t | grep -q idle; then ready=1; break; fi
    sleep 1
done
[[ ${ready:-} ]] || { tail -n 5 "$dir"/*.log >&2; exit 1; }
"${@:2}"
