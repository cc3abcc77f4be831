#!/bin/bash
# sbatch examples/slurm.sh: one run that uses all GPUs of four machines, see docs/workers.md.
#SBATCH --nodes=4 --gpus-per-node=8 --ntasks-per-node=1 --cpus-per-task=64
export RAY_AUTH_MODE=token  # else anyone in the network can run programs as you
ray get-auth-token --generate >/dev/null  # in the home, which all machines share
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(srun --nodes=1 --ntasks=1 -w "$head" hostname -I | awk '{print $1}'):6379
srun --nodes=1 --ntasks=1 -w "$head" ray start --head --port=6379 --block &
sleep 20
srun --nodes=$((SLURM_NNODES - 1)) --ntasks=$((SLURM_NNODES - 1)) --exclude="$head" \
    ray start --address="$address" --block &
sleep 20
srun --overlap --nodes=1 --ntasks=1 -w "$head" \
    selfplay train --preset 7b-8t8s --set teachers=16 --set students=16 --ray "$address" \
    --workers --out runs/big
